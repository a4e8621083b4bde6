"""How an attempt that is careful finds the records that cannot be processed.

An attempt does everything over whole columns, so all that it can say of a null key or of a total
that does not fit is that there is one. The attempt after it looks for them: it tries rows
together and halves them where they fail, until it is left with single ones. Parts that go
together are never looked at closer, so a few bad rows among many cost a few tries.

Each row found goes to the topology's dead-letter depot; without one, the first ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.errors import AtollError, DataError, StateError
from atoll.topology.expressions import is_computed
from atoll.topology.rows import ORIGIN, Row, row_type, rows_of
from atoll.topology.usercode import row_words

if TYPE_CHECKING:
    from atoll.topology.usercode import Rejects, Step


class _First:
    """Ends the attempt at the first row: the topology sets none aside."""

    def add(self, step: Step, row: Row, origin: int | None, error: AtollError) -> None:  # noqa: ARG002 - the error says it all
        """Raise the error."""
        raise error


FIRST: Rejects = _First()


@dataclass
class Refusing:
    """What a careful attempt does with rows that one step cannot take.

    Attributes:
        step: That step.
        rejects: Where such rows go.
        count: How many went there.
    """

    step: Step
    rejects: Rejects
    count: int = 0

    def refuse(self, rows: pa.Table, position: int, error: AtollError) -> None:
        """Set one of the rows aside.

        Raises:
            AtollError: The error, naming the row, when none are set aside.
        """
        table = rows.slice(position, 1)
        origin = None
        if ORIGIN in table.column_names:
            origin = table.column(ORIGIN)[0].as_py()
            table = table.drop_columns([ORIGIN])
        row = _row(table.drop_columns(list(filter(is_computed, table.column_names))))
        named = {"operator": self.step.title, "declared": self.step.place, "row": row_words(row)}
        if origin is not None:
            named["origin"] = origin
        error.context.pop("row", None)  # a position among rows that nobody else has
        for name, value in named.items():
            error.context.setdefault(name, value)
        self.rejects.add(self.step, row, origin, error)
        self.count += 1


def sift(
    first: int, stop: int, take: Callable[[int, int], AtollError | None]
) -> Iterator[tuple[int, AtollError]]:
    """The rows from ``first`` to ``stop`` that cannot be taken, each with its error, in order.

    Args:
        first: The first row.
        stop: The one after the last.
        take: Takes the rows from one to another together, or says why it cannot. It is asked
            about rows in their order, and never again about rows that it took.
    """
    if first == stop:
        return
    error = take(first, stop)
    if error is None:
        return
    if stop - first == 1:
        yield first, error
        return
    middle = (first + stop) // 2
    yield from sift(first, middle, take)
    yield from sift(middle, stop, take)


@contextmanager
def data_errors() -> Iterator[None]:
    """Let what is raised of rows, where nothing stored is read, be known to come again."""
    try:
        yield
    except StateError as error:
        context = {name: value for name, value in error.context.items() if name != "row"}
        raise DataError(error.message, hint=error.hint, **context) from error
    except pa.ArrowInvalid as error:
        hint = "cast the column so that every value of it fits"
        raise DataError(f"a value does not fit: {error}", hint=hint) from error


def tried(work: Callable[[], Any]) -> AtollError | None:
    """Why this can never be done with the rows that it is about; None when it was done.

    Raises:
        AtollError: What is no fault of the rows: of a function of the user's, of a file.
    """
    try:
        work()
    except AtollError as error:
        if not error.permanent:
            raise
        return error
    return None


def _row(table: pa.Table) -> Row:
    """The only row of a table, whatever is in it."""
    batch = table.combine_chunks().to_batches()[0]
    try:
        return next(rows_of(batch))
    except (ValueError, OverflowError):  # a date that Python has no object for
        row = row_type(tuple(batch.schema.names))()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            setattr(row, name, str(column))
        return row
