"""Columns of event time as numbers: milliseconds since 1970, whatever their type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from atoll.ddl import type_in_words
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PER_MILLI = {"us": 1_000, "ns": 1_000_000}
_MILLIS = {"s": 1_000, "ms": 1}


def check_event_time(schema: pa.Schema, column: str, word: str, place: str) -> pa.DataType:
    """The type of a column of event time.

    Raises:
        DeclarationError: When it is not there, or is neither an instant nor milliseconds.
    """
    if column not in schema.names:
        raise DeclarationError(
            f"{word} uses the column {column!r}, which the rows before it do not have",
            hint=f"they have {', '.join(schema.names)}",
            declared=place,
        )
    kind = schema.field(column).type
    instant = pa.types.is_timestamp(kind) and kind.tz is not None
    if not instant and not pa.types.is_int64(kind):
        raise DeclarationError(
            f"{word} uses the column {column!r} of type {type_in_words(kind)} as the time of an "
            "event",
            hint="it must be a timestamp, or a long of milliseconds since 1970",
            declared=place,
        )
    return kind


def event_millis(column: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The milliseconds of each row, rounded down, and whether the row has a time at all."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy()
    if pa.types.is_timestamp(array.type):
        unit = array.type.unit
        if unit in _PER_MILLI:
            return numbers // _PER_MILLI[unit], valid
        return numbers * _MILLIS[unit], valid
    return numbers, valid


def event_column(millis: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """The column of a type that :func:`event_millis` reads as these milliseconds."""
    if not pa.types.is_timestamp(kind):
        return pa.array(millis, kind)
    if kind.unit in _PER_MILLI:
        return pa.array(millis * _PER_MILLI[kind.unit]).cast(kind)
    return pa.array(millis // _MILLIS[kind.unit]).cast(kind)
