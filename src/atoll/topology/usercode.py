"""Calls into the user's functions, so that what they raise says where it came from."""

from __future__ import annotations

import functools
import inspect
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from atoll.errors import (
    AtollError,
    DamageError,
    DeclarationError,
    FencedError,
    GivenError,
    StorageError,
    TooLargeError,
    UserCodeError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.rows import Row


class Step(Protocol):
    """An operator, as messages name it."""

    @property
    def title(self) -> str:
        """The operator's word."""

    @property
    def place(self) -> str:
        """Where it was declared."""


class Rejects(Protocol):
    """Takes the rows on which a user's function raised, where the topology sets them aside."""

    def add(self, step: Step, row: Row, origin: int | None, error: AtollError) -> None:
        """Take one row, where it came from, and the error as :func:`blame` made it."""


HIDDEN_COLUMN = "__atoll_origin"
"""Says which record of the microbatch a row came from; never seen by users."""

NO_COLUMN = "__atoll_no_column"
"""Stands in for the columns of rows without any, which Arrow cannot count; never seen by users."""

MEND_HINT = "mend the function, deploy it again and resume the topology"
"""What to do about a function of a topology that raises."""

_ROW_TEXT_MAX = 500
_NEVER_REJECTED = (DamageError, StorageError, FencedError, MemoryError, TooLargeError)


@contextmanager
def calling(operator: Step, row: Row | None, origin: int | None = None) -> Iterator[None]:
    """Turn what the user's function raises into an error that names operator, row and line."""
    try:
        yield
    except Exception as error:
        blamed = blame(operator, row, origin, error)
        if blamed is error:
            raise
        raise blamed from error


def blame(
    operator: Step, row: Row | None, origin: int | tuple[int, int] | None, error: Exception
) -> AtollError:
    """What the user's function raised as an error that says where.

    Errors of Atoll's own (a handle used wrongly) stay what they are and learn the same. The
    context's ``origin`` is turned into a record's place by whoever knows the plan.
    """
    where = _where(operator, row, error.__traceback__)
    if origin is not None:
        where["origin"] = origin
    if isinstance(error, AtollError):
        for name, value in where.items():
            error.context.setdefault(name, value)
        if not isinstance(error, GivenError):
            error.permanent = False  # the function may have asked somebody else
        return error
    if isinstance(error, MemoryError):  # not the function's fault alone: less at once may fit
        message = f"out of memory in a function of {operator.title}"
        too_large = TooLargeError(message, hint=TooLargeError.usual_hint, **where)
        too_large.__cause__ = error
        return too_large
    blamed = UserCodeError(
        f"{type(error).__name__} in a function of {operator.title}: {error}",
        hint=MEND_HINT,
        **where,
    )
    blamed.__cause__ = error
    return blamed


def row_words(row: Row) -> str:
    """A row as an error shows it, cut where it is long."""
    return repr(row)[:_ROW_TEXT_MAX]


def is_rejectable(error: Exception) -> bool:
    """Whether an error is the function's, not the disk's, the memory's or another life's."""
    return not isinstance(error, _NEVER_REJECTED)


def _where(operator: Step, row: Row | None, trace: TracebackType | None) -> dict[str, Any]:
    where = {"operator": operator.title, "declared": operator.place}
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if not frame.filename.startswith(_others_code())]
    if frames:
        where["line"] = f"{(own or frames)[-1].filename}:{(own or frames)[-1].lineno}"
    if row is not None:
        where["row"] = row_words(row)
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


def check_function(
    function: object,
    arguments: int,
    word: str,
    place: str,
    hint: str = "give a function of one argument",
) -> None:
    """Hold that the user's function can be called with so many arguments.

    Args:
        function: What was given.
        arguments: With how many it will be called.
        word: By which step.
        place: Where that was declared.
        hint: What to write where it takes fewer or more.

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
            hint=hint,
            declared=place,
        ) from None


def check_columns(names: Iterable[str]) -> None:
    """Hold that no column has a name that Atoll keeps for itself.

    Raises:
        DeclarationError: When one has.
    """
    for name in names:
        if name.lower() in (HIDDEN_COLUMN, NO_COLUMN):
            raise DeclarationError(
                f"no column can be called {name}: Atoll keeps it for itself",
                hint="choose another name",
            )


def declared_at(depth: int) -> str:
    """``file.py:line`` of the caller ``depth`` frames above the function that asks."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = None if frame is None else frame.f_back
    if frame is None:
        return "unknown"
    return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"


def emitted_columns(given: Any, place: str, *, beside: bool = False) -> pa.Schema:
    """The columns that a step declares in ``emits=``: DDL, a class with fields, an Arrow schema.

    Args:
        given: What the user wrote.
        place: Where the step was declared.
        beside: Whether ``"*, ok boolean"`` may say that they stand beside the input's.

    Raises:
        DeclarationError: When it is no schema, or names a column that Atoll keeps.
    """
    from atoll.codec.spellings import columns_of
    from atoll.topology.rows import ADDED

    with placed(place):
        added = isinstance(given, str) and given.lstrip().startswith("*")
        if added and not beside:
            raise DeclarationError(
                "* cannot stand in emits= here",
                hint="name all columns: only map, flat_map and process add to those of a row",
            )
        text = given.lstrip()[1:].lstrip().removeprefix(",") if added else given
        schema = columns_of(text) if not added or text.strip() else columns_of("_ long").remove(0)
        check_columns(schema.names)
        return schema.with_metadata(ADDED) if added else schema
