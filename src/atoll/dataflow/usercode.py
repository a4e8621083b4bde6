"""Calls into the user's functions, so that what they raise says where it came from."""

from __future__ import annotations

import functools
import inspect
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from atoll.errors import AtollError, DeclarationError, UserCodeError

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


__all__ = ["calling", "check_function", "declared_at", "placed"]

_ROW_TEXT_MAX = 500


@contextmanager
def calling(operator: Step, row: Row | None) -> Iterator[None]:
    """Turn what the user's function raises into an error that names operator, row and line.

    Errors of Atoll's own (a handle used wrongly) stay what they are and learn the same.
    """
    try:
        yield
    except AtollError as error:
        for name, value in _where(operator, row, error.__traceback__).items():
            error.context.setdefault(name, value)
        raise
    except Exception as error:
        raise UserCodeError(
            f"{type(error).__name__} in a function of {operator.title}: {error}",
            hint="mend the function, deploy it again and resume the topology",
            **_where(operator, row, error.__traceback__),
        ) from error


def _where(operator: Step, row: Row | None, trace: TracebackType | None) -> dict[str, Any]:
    where = {"operator": operator.title, "declared": operator.place}
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if not frame.filename.startswith(_others_code())]
    if frames:
        where["line"] = f"{(own or frames)[-1].filename}:{(own or frames)[-1].lineno}"
    if row is not None:
        where["row"] = repr(row)[:_ROW_TEXT_MAX]
    return where


@functools.cache
def _others_code() -> tuple[str, ...]:
    """Where code lies that is not the user's: Python's, installed packages', Atoll's."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = [sysconfig.get_path(name) for name in names]
    return (*installed, str(Path(__file__).parents[1]), "<frozen")


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Give declaration errors raised inside the user's line, where they have none yet."""
    try:
        yield
    except DeclarationError as error:
        error.context.setdefault("declared", place)
        raise


def check_function(function: object, arguments: int, word: str, place: str) -> None:
    """Hold that the user's function can be called with so many arguments.

    Raises:
        DeclarationError: When it is no function, or takes fewer or more.
    """
    if not callable(function):
        raise DeclarationError(
            f"{word} takes a function, not {function!r}",
            hint="give the function itself, without calling it",
            declared=place,
        )
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in functions do not tell
        return
    try:
        signature.bind(*range(arguments))
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        raise DeclarationError(
            f"{word} calls {name} with {arguments} arguments, but it is {name}{signature}",
            hint="process gives the row and one handle per state; the others give one argument",
            declared=place,
        ) from None


def declared_at(depth: int) -> str:
    """``file.py:line`` of the caller ``depth`` frames above the function that asks."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = None if frame is None else frame.f_back
    if frame is None:
        return "unknown"
    return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
