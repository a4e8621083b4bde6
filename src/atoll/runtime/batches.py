"""Events as columns, for types that take many at once.

A column per field. A null says that the event has no such field, or that null is written there; for
every type the two are the same, but what is emitted keeps them apart: a column whose field has the
metadata ``{"null": "written"}`` means the second. Within objects it is the same for their fields.

Numbers keep their kind: a column is of whole numbers or of others, since 1 and 1.0 are
two texts. Events that differ in the type of a field, or have it written as null here and left
out there, fit no columns; :func:`to_batch` says so, and they are taken one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from atoll.runtime.actors.interface import BatchResult, Event

_WRITTEN = {b"null": b"written"}
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_SIMPLE = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


class _Misfit(Exception):  # noqa: N818  # no error: the answer is "one by one"
    """The values fit no column."""


def to_batch(events: Sequence[Event]) -> pa.RecordBatch | None:
    """The events as columns, or None when they fit none."""
    try:
        arrays, fields = _columns(events)
    except (_Misfit, pa.ArrowException, UnicodeEncodeError):
        return None
    if not fields:
        return None
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def from_batch(batch: pa.RecordBatch) -> list[Event]:
    """The events that the columns hold."""
    names = batch.schema.names
    columns = [_values(batch.column(at), batch.schema.field(at)) for at in range(batch.num_columns)]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not _ABSENT}
        for row in zip(*columns, strict=True)
    ]


_ABSENT = object()


def _columns(events: Sequence[Event]) -> tuple[list[pa.Array], list[pa.Field]]:
    names = dict.fromkeys(name for event in events for name in event)
    arrays, fields = [], []
    for name in names:
        array, written = _array([event.get(name, _ABSENT) for event in events])
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata=_WRITTEN if written else None))
    return arrays, fields


def _array(values: list[Any]) -> tuple[pa.Array, bool]:
    """The values as an array, and whether nulls in it are written ones."""
    kinds = set(map(type, values))
    absent = object in kinds
    written = type(None) in kinds
    kinds -= {object, type(None)}
    if len(kinds) > 1 or (absent and written):
        raise _Misfit
    plain = [None if value is _ABSENT else value for value in values]
    kind = kinds.pop() if kinds else None
    if kind is None:
        return pa.nulls(len(values)), written
    if kind is dict:
        return _structs(plain), written
    if kind is list:
        return _lists(plain), written
    if kind not in _SIMPLE:
        raise _Misfit
    if kind is int and not all(v is None or _INT_MIN <= v <= _INT_MAX for v in plain):
        raise _Misfit
    if kind is float and not all(v is None or v - v == 0 for v in plain):
        raise _Misfit
    return pa.array(plain, _SIMPLE[kind]), written


def _structs(values: list[Any]) -> pa.Array:
    arrays, fields = _columns([value or {} for value in values])
    mask = pa.array([value is None for value in values])
    if not fields:
        raise _Misfit
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _lists(values: list[Any]) -> pa.Array:
    items = [item for value in values for item in value or ()]
    array, _ = _array(items)
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    mask = pa.array([value is None for value in values])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array, mask=mask)


def _values(column: pa.Array, field: pa.Field | None) -> list[Any]:
    """The values; where there is none, null when it is written or in a list, else nothing."""
    kind = column.type
    if pt.is_struct(kind):
        parts = [_values(column.field(at), kind.field(at)) for at in range(kind.num_fields)]
        names = [each.name for each in kind]
        values: list[Any] = [
            {name: value for name, value in zip(names, row, strict=True) if value is not _ABSENT}
            for row in zip(*parts, strict=True)
        ]
    elif pt.is_list(kind):
        items = _values(column.values, None)
        ends = column.offsets.to_pylist()
        values = [items[ends[at] : ends[at + 1]] for at in range(len(column))]
    else:
        values = column.to_pylist()
    if column.null_count:
        written = field is None or (field.metadata or {}).get(b"null") == b"written"
        nothing = None if written else _ABSENT
        there = column.is_valid().to_pylist()
        values = [value if ok else nothing for value, ok in zip(values, there, strict=True)]
    return values


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """The column of a field, or None when no event has it."""
    at = batch.schema.get_field_index(name)
    if at < 0:
        return None
    column = batch.column(at)
    return column.dictionary_decode() if pt.is_dictionary(column.type) else column


def numbers_in(column: pa.Array | None) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """The numbers of a column and where they are finite numbers; None when it has none at all.

    Whole numbers stay whole. A place without a number holds any.
    """
    if column is None or not (pt.is_integer(column.type) or pt.is_floating(column.type)):
        return None
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(np.float64, copy=False)
        valid = valid & np.isfinite(numbers)
    return numbers, valid


def chosen(
    batch: pa.RecordBatch,
    keep: NDArray[np.bool_],
    failures: dict[str, NDArray[np.int64]] | None = None,
) -> BatchResult:
    """The events of these rows, unchanged."""
    rows = np.flatnonzero(keep).astype(np.int64)
    events = batch if len(rows) == batch.num_rows else batch.filter(pa.array(keep))
    told = {reason: at for reason, at in (failures or {}).items() if len(at)}
    return BatchResult(events, rows, told)


def with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """The batch with a column in the place of one, or behind the others."""
    at = batch.schema.get_field_index(name)
    field = pa.field(name, column.type)
    if at >= 0:
        return batch.set_column(at, field, column)
    return batch.append_column(field, column)
