"""Calls a user's function with rows or batches, keeping track of where what it makes came from.

Rows may carry a hidden column that says which record they came from
(:data:`~atoll.topology.rows.ORIGIN`). The user's function never sees it; what the function makes
of a row gets the row's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from atoll.beats import present
from atoll.errors import UserCodeError
from atoll.objects import is_object
from atoll.steps.rows.numbered import NUMBER
from atoll.topology.rows import (
    Row,
    adds,
    batch_from_rows,
    given_columns,
    put_beside,
    row_at,
    rows_of,
    taken,
    with_origins,
    without_origins,
)
from atoll.topology.usercode import Step, blame, is_rejectable

if TYPE_CHECKING:
    from atoll.topology.usercode import Rejects


class Emitting(Step, Protocol):
    """A step that declares what it emits."""

    @property
    def emitted(self) -> pa.Schema:
        """The columns."""


def call_rows(
    step: Emitting,
    batch: pa.RecordBatch,
    function: Callable[[Row], Iterable[Any]],
    rejects: Rejects | None,
) -> pa.RecordBatch:
    """The rows that the function makes of each row, as one batch of what the step emits.

    Raises:
        AtollError: When the function raises, or makes what does not fit, and there is nowhere to
            set the row aside.
    """
    plain, origins = without_origins(batch)
    out: list[Any] = []
    ends = [0]
    adding = adds(step.emitted)
    for at, row in enumerate(present().each(rows_of(plain))):
        beside = row.asdict() if adding else None
        try:
            out.extend(put_beside(beside, taken(each)) for each in function(row))
        except Exception as error:  # noqa: BLE001 - the user's function raised it
            _set_aside(step, row_at(plain, at), _at(origins, at), error, rejects)
            del out[ends[-1] :]
        ends.append(len(out))
    columns = given_columns(step.emitted, plain.schema)
    try:
        made = batch_from_rows(out, columns, step.title, step.place)
    except UserCodeError:
        out, ends = _fitting(step, plain, origins, (out, ends), rejects)
        made = batch_from_rows(out, columns, step.title, step.place)
    return with_origins(made, _repeated(origins, ends))


def all_of(step: Step, given: Any) -> Iterator[Any]:
    """The rows that a function of ``flat_map`` gave for one row.

    Raises:
        UserCodeError: When it gave one row where it should give several.
    """
    if given is None:
        raise _misgiven(step, "None", "return a list of rows, [] for none, or yield them")
    returned = given if isinstance(given, Mapping | Row) or is_object(given) else None
    if returned is None:
        returned = yield from given
    if isinstance(returned, Mapping | Row) or is_object(returned):
        raise _misgiven(step, "a row", "yield it in place of return, or return a list of rows")


def one_of(step: Step, given: Any) -> tuple[Any]:
    """The row that a function of ``map`` gave for one row.

    Raises:
        UserCodeError: When it is none.
    """
    if isinstance(given, Generator):
        raise _misgiven(step, "a generator", "return one row, or use flat_map to yield several")
    if given is None:
        raise _misgiven(step, "None", "return a row, or use flat_map to give none")
    return (given,)


def _misgiven(step: Step, what: str, hint: str) -> UserCodeError:
    return UserCodeError(
        f"the function of {step.title} returned {what}",
        hint=hint,
        operator=step.title,
        declared=step.place,
    )


def _fitting(
    step: Emitting,
    batch: pa.RecordBatch,
    origins: pa.Array | None,
    made: tuple[list[Any], list[int]],
    rejects: Rejects | None,
) -> tuple[list[Any], list[int]]:
    """What was made of the rows of which all fits; the others raise or are rejected."""
    out, ends = made
    kept: list[Any] = []
    kept_ends = [0]
    for at, row in enumerate(rows_of(batch)):
        mine = out[ends[at] : ends[at + 1]]
        try:
            columns = given_columns(step.emitted, batch.schema)
            batch_from_rows(mine, columns, step.title, step.place)
        except UserCodeError as error:
            blamed = blame(step, row, _at(origins, at), error)
            blamed.context.pop("line", None)  # no line of the user's was running
            if rejects is None:
                raise
            rejects.add(step, row, _at(origins, at), blamed)
        else:
            kept.extend(mine)
        kept_ends.append(len(kept))
    return kept, kept_ends


def verdicts(
    step: Step,
    batch: pa.RecordBatch,
    function: Callable[[Row], Any],
    rejects: Rejects | None,
) -> list[bool | None]:
    """Whether the function is true of each row; None where it raised and the row was set aside.

    Raises:
        AtollError: When the function raises and there is nowhere to set the row aside.
    """
    values = _values(step, batch, lambda row: bool(function(row)), rejects)
    return [None if value is _ASIDE else value for value in values]


def numbers(
    step: Step,
    batch: pa.RecordBatch,
    function: Callable[[Row], Any],
    rejects: Rejects | None,
) -> pa.RecordBatch:
    """The rows with the number that the function gives each; those set aside are left out.

    Raises:
        AtollError: When the function raises or gives no int, and there is nowhere to set the row
            aside.
    """

    def number(row: Row) -> int:
        value = function(row)
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise UserCodeError(
                f"{step.title} needs an int of 64 bits for each row, its function gave {value!r}",
                hint="return an int made of the row alone, such as row.user_id % 8",
                operator=step.title,
                declared=step.place,
            )
        return value

    values = _values(step, batch, number, rejects)
    kept = [value is not _ASIDE for value in values]
    plain, origins = without_origins(batch)
    column = pa.array([value for value in values if value is not _ASIDE], pa.int64())
    if not all(kept):
        mask = pa.array(kept, pa.bool_())
        plain, origins = plain.filter(mask), None if origins is None else origins.filter(mask)
    return with_origins(plain.append_column(pa.field(NUMBER, pa.int64()), column), origins)


_ASIDE = object()
"""What a row gives that was set aside."""


def _values(
    step: Step,
    batch: pa.RecordBatch,
    function: Callable[[Row], Any],
    rejects: Rejects | None,
) -> list[Any]:
    """What the function gives for each row, or ``_ASIDE``."""
    plain, origins = without_origins(batch)
    values: list[Any] = []
    for at, row in enumerate(present().each(rows_of(plain))):
        try:
            values.append(function(row))
        except Exception as error:  # noqa: BLE001 - the user's function raised it
            _set_aside(step, row_at(plain, at), _at(origins, at), error, rejects)
            values.append(_ASIDE)
    return values


def _set_aside(
    step: Step, row: Row, origin: int | None, error: Exception, rejects: Rejects | None
) -> None:
    """Reject a row on which a user's function raised; where rows cannot be, it fails the attempt.

    Raises:
        AtollError: What was raised, with the step, the record and the line.
    """
    blamed = blame(step, row, origin, error)
    if isinstance(error, UserCodeError):
        blamed.context.pop("line", None)  # no line of the user's was running
    if rejects is None or not is_rejectable(error):
        if blamed is error:
            raise error
        raise blamed from error
    rejects.add(step, row, origin, blamed)


def _at(origins: pa.Array | None, index: int) -> int | None:
    if origins is None:
        return None
    origin: int | None = origins[index].as_py()
    return origin


def _repeated(origins: pa.Array | None, ends: list[int]) -> pa.Array | None:
    """The origin of each row made: that of the row that it was made of."""
    if origins is None:
        return None
    counts = np.diff(np.asarray(ends))
    if (counts == 1).all():
        return origins
    return origins.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


class Feed:
    """Hands batches to a function that takes them all, and remembers what it took.

    Rows that come out are taken to be those that went in since the last batch came out, if they
    are as many; else nobody knows.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Nothing is taken yet."""
        self._batches = batches
        self._taken: list[pa.Array] = []
        self._tracked = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches as users may see them."""
        for batch in present().each(self._batches):
            plain, origins = without_origins(batch)
            if origins is not None:
                self._tracked = True
                self._taken.append(origins)
            yield plain

    def origins_of(self, rows: int) -> pa.Array | None:
        """The origins of a batch that came out; call once for each."""
        if not self._tracked:
            return None
        taken, self._taken = self._taken, []
        if sum(map(len, taken)) != rows:
            return pa.nulls(rows, pa.int64())
        return pa.concat_arrays(taken) if taken else pa.nulls(0, pa.int64())

    def between(self) -> int | tuple[int, int] | None:
        """The first and the last origin of what was taken and did not come out yet."""
        known = [each for part in self._taken for each in part.to_pylist() if each is not None]
        if not known:
            return None
        return known[0] if len(known) == 1 else (min(known), max(known))
