"""Calls into the user's functions, so that what they raise says where it came from."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from atoll.errors import AtollError, UserCodeError

if TYPE_CHECKING:
    from atoll.dataflow.rows import Row


class Step(Protocol):
    """An operator, as messages name it."""

    @property
    def title(self) -> str:
        """The operator's word."""

    @property
    def place(self) -> str:
        """Where it was declared."""


__all__ = ["calling", "declared_at"]

_ROW_TEXT_MAX = 500


@contextmanager
def calling(operator: Step, row: Row | None) -> Iterator[None]:
    """Turn what the user's function raises into an error that names operator, row and line.

    Errors of Atoll's own (a handle used wrongly) pass as they are.
    """
    try:
        yield
    except AtollError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
        context = {} if row is None else {"row": repr(row)[:_ROW_TEXT_MAX]}
        raise UserCodeError(
            f"{type(error).__name__} in a function of {operator.title}: {error}",
            hint="mend the function, deploy it again and resume the topology",
            operator=operator.title,
            declared=operator.place,
            line=line,
            **context,
        ) from error


def declared_at(depth: int) -> str:
    """``file.py:line`` of the caller ``depth`` frames above the function that asks."""
    import sys

    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
