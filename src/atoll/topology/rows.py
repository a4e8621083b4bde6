"""Rows as user functions see them: small objects with the columns as attributes.

A row type is made once per schema; rows are built column-wise from an Arrow batch, so the cost of
a row is that of filling its slots.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from atoll.codec.detached import detached
from atoll.errors import UserCodeError
from atoll.exact_values import exact_array
from atoll.objects import as_row, plain
from atoll.python_values import python_values
from atoll.topology.usercode import HIDDEN_COLUMN, NO_COLUMN

_MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError)
"""What Arrow raises for a value that a column cannot hold."""

ADDED = {b"atoll.beside": b"the input's columns"}
"""Marks the columns of ``emits="*, ..."``, which stand beside those of the rows before."""

ORIGIN = HIDDEN_COLUMN
"""The hidden column that says which record of the microbatch a row came from."""

ORIGIN_FIELD = pa.field(ORIGIN, pa.int64())


class Row:
    """One record: ``row.price``, ``row["price"]``, ``row.asdict()``."""

    __slots__ = ()
    columns: ClassVar[tuple[str, ...]] = ()

    def asdict(self) -> dict[str, Any]:
        """The record as a new dict, columns in order."""
        return {name: getattr(self, name) for name in self.columns}

    def __getitem__(self, name: str) -> Any:
        """The value of a column; ``KeyError`` when there is none of that name."""
        if name in self.columns:
            return getattr(self, name)
        raise KeyError(name)

    if TYPE_CHECKING:  # columns are known when it runs

        def __getattr__(self, name: str) -> Any:
            """The value of a column."""

    def __repr__(self) -> str:
        """``Row(k='a', v=1)``."""
        return "Row(" + ", ".join(f"{n}={v!r}" for n, v in self.asdict().items()) + ")"

    def __eq__(self, other: object) -> bool:
        """Rows are equal when columns and values are."""
        return isinstance(other, Row) and self.asdict() == other.asdict()

    __hash__ = None  # type: ignore[assignment]  # rows may hold lists


class _OddRow(Row):
    """A row with a column that cannot be an attribute, such as ``count(1)`` or ``columns``."""

    __slots__ = ("_values",)

    def asdict(self) -> dict[str, Any]:
        """The record as a new dict, columns in order."""
        return {name: self[name] for name in self.columns}

    def __getitem__(self, name: str) -> Any:
        """The value of a column; ``KeyError`` when there is none of that name."""
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        """The value of a column whose name means nothing else."""
        if name != "_values" and name in self.columns:
            return self._values[name]
        raise AttributeError(f"the row has no column {name!r}; it has {', '.join(self.columns)}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a column of this row object."""
        try:
            values = object.__getattribute__(self, "_values")
        except AttributeError:
            values = {}
            object.__setattr__(self, "_values", values)
        values[name] = value


@functools.lru_cache(maxsize=256)
def row_type(names: tuple[str, ...]) -> type[Row]:
    """The row class for these column names."""
    tame = all(n.isidentifier() and not n.startswith("__") and not hasattr(Row, n) for n in names)
    if tame:
        return type("Row", (Row,), {"__slots__": names, "columns": names})
    return type("Row", (_OddRow,), {"__slots__": (), "columns": names})


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch, in order, with plain Python values."""
    names = tuple(batch.schema.names)
    if names == (NO_COLUMN,):
        yield from (row_type(())() for _ in range(batch.num_rows))
        return
    kind = row_type(names)
    columns = map(python_values, batch.columns)
    for values in zip(*columns, strict=True):
        row = kind()
        for name, value in zip(names, values, strict=True):
            setattr(row, name, value)
        yield row


def put_beside(row: dict[str, Any] | None, made: Any) -> Any:
    """What a function made of a row, with the row's other columns where these are given."""
    return made if row is None or not isinstance(made, Mapping) else {**row, **made}


def adds(emitted: pa.Schema) -> bool:
    """Whether a step's rows have the columns of the rows before, too."""
    return bool(emitted.metadata == ADDED)


def given_columns(emitted: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """The columns of a step's rows: those it declares, in the place of those or behind them.

    Args:
        emitted: What the step declares.
        rows: The columns of the rows before, as its function sees them.
    """
    if not adds(emitted):
        return emitted
    named = {field.name: field for field in emitted}
    kept = [named.pop(field.name, field) for field in rows if field.name != NO_COLUMN]
    return pa.schema([*kept, *named.values()])


def row_at(rows: pa.RecordBatch | pa.Table, at: int) -> Row:
    """One row anew: a function may have changed the one that it was called with."""
    part = rows.slice(at, 1)
    batch = part if isinstance(part, pa.RecordBatch) else part.combine_chunks().to_batches()[0]
    return next(rows_of(batch))


def without_origins(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """The batch as users may see it, and where its rows came from, if it says so."""
    at = batch.schema.get_field_index(ORIGIN)
    if at < 0:
        return batch, None
    return batch.drop_columns([ORIGIN]), batch.column(at)


def with_origins(batch: pa.RecordBatch, origins: pa.Array | None) -> pa.RecordBatch:
    """The batch with where its rows came from as its last column; as it is when that is None."""
    return batch if origins is None else batch.append_column(ORIGIN_FIELD, origins)


def conformed(batch: pa.RecordBatch, *, tracked: bool) -> pa.RecordBatch:
    """The batch with its rows' origins last (null where unknown), or without them."""
    plain, origins = without_origins(batch)
    if not tracked:
        return plain
    if origins is None:
        origins = pa.nulls(batch.num_rows, pa.int64())
    return with_origins(plain, origins)


def taken(row: Any) -> Any:
    """A row that a function made, as it is now: the function may go on changing it."""
    values = row.asdict() if isinstance(row, Row) else row
    if not isinstance(values, Mapping):
        return as_row(values)
    return {name: detached(value) for name, value in values.items()}


def batch_from_rows(
    rows: Iterable[Any], schema: pa.Schema, operator: str, place: str
) -> pa.RecordBatch:
    """The rows that a user function emitted (dicts or rows) as one batch of the declared schema.

    Raises:
        UserCodeError: When a row has a column too many or a value of another type.
    """
    names = set(schema.names)
    plain = []
    for row in rows:
        values = row.asdict() if isinstance(row, Row) else row
        if not isinstance(values, Mapping) or not names.issuperset(values):
            extra = sorted(set(values) - names) if isinstance(values, Mapping) else repr(values)
            raise UserCodeError(
                f"a row emitted by {operator} does not fit what it declares: {extra}",
                hint=f"emit dicts with the columns {', '.join(schema.names)}",
                operator=operator,
                declared=place,
            )
        plain.append(values)
    columns = []
    for field in schema:
        try:
            columns.append(_column([row.get(field.name) for row in plain], field.type))
        except _MISFIT as error:
            raise UserCodeError(
                f"a value emitted by {operator} has the wrong type: column {field.name}: {error}",
                hint="make it match the types in emits=",
                operator=operator,
                declared=place,
            ) from error
        if columns[-1].null_count and not field.nullable:
            raise UserCodeError(
                f"a row emitted by {operator} has no value for column {field.name}",
                hint="give one, or let emits= say that it may be null: X | None, or no NOT NULL",
                operator=operator,
                declared=place,
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Arrow's array of these values, each kept exactly; a set is a list there."""
    if _may_hold_sets(kind):
        values = [_ordered(value, kind) for value in values]
    try:
        return exact_array(values, kind)
    except _MISFIT as misfit:  # there may be objects among them
        simple = [plain(value) for value in values]
        try:
            return exact_array(simple, kind)
        except _MISFIT:
            raise misfit from None  # it shows what was given


@functools.lru_cache(maxsize=256)
def _may_hold_sets(kind: pa.DataType) -> bool:
    """Whether there is a list in it, which a set can be given for."""
    if pa.types.is_struct(kind):
        return any(_may_hold_sets(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _may_hold_sets(kind.item_type)
    return bool(pa.types.is_nested(kind))


def _ordered(value: Any, kind: pa.DataType) -> Any:
    """The value with its sets as lists, in an order that every attempt repeats."""
    if not _may_hold_sets(kind):
        return value
    if pa.types.is_map(kind):
        if isinstance(value, Mapping):
            return {key: _ordered(item, kind.item_type) for key, item in value.items()}
    elif pa.types.is_struct(kind):
        if isinstance(value, Mapping):
            types = {field.name: field.type for field in kind}
            return {
                name: _ordered(item, types.get(name, pa.null())) for name, item in value.items()
            }
        if isinstance(value, tuple) and len(value) == kind.num_fields:
            pairs = zip(value, kind, strict=True)
            return tuple(_ordered(item, field.type) for item, field in pairs)
        if isinstance(value, set | frozenset | list):
            raise pa.ArrowTypeError(f"{value!r:.80} is no struct")
    else:
        if isinstance(value, set | frozenset):
            value = _sorted(value)
        if isinstance(value, list):
            inner = kind.value_type
            return [_ordered(item, inner) for item in value] if _may_hold_sets(inner) else value
    return value


def _sorted(elements: Any) -> list[Any]:
    if type(elements) not in (set, frozenset):  # stored ones have an order of their own
        return list(elements)
    try:
        return sorted(elements)
    except TypeError:
        return sorted(elements, key=repr)
