"""Fits columns to scalars.

Arrow columns come from Spark and from files in many widths; here they become the one type per
kind that keys and values are encoded from. A column is cast only where no value can change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.aggregates.kernels.types import exact_cast
from atoll.arrow_types import arrow_type, kind_of
from atoll.codec.scalars import (
    DAYS_MAX,
    DAYS_MIN,
    MICROSECONDS_MAX,
    MICROSECONDS_MIN,
)
from atoll.ddl import type_in_words
from atoll.errors import DataError, StateError
from atoll.schema import Scalar


def fit_column(column: Any, scalar: Scalar, *, place: str) -> pa.Array:
    """The column as one array of :func:`arrow_type`, with the same values.

    Accepts chunked, dictionary-encoded, narrower and differently scaled columns. Nulls pass.

    Args:
        column: A ``pa.Array`` or ``pa.ChunkedArray``.
        scalar: What the column must hold.
        place: What to call the column in an error, such as ``"key column 0"``.

    Raises:
        StateError: When the column's type does not fit.
        DataError: When a value cannot be kept exactly.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = arrow_type(scalar)
    if scalar.kind == "tuple" and not pa.types.is_null(array.type):
        return _fit_struct(array, scalar, place)
    if array.type != wanted:
        array = _cast(array, scalar, wanted, place)
    if scalar.kind in _TEMPORAL_LIMITS:
        _check_range(array, scalar, place)
    return array


_TEMPORAL_LIMITS: dict[str, tuple[pa.DataType, int, int]] = {
    "date": (pa.int32(), DAYS_MIN, DAYS_MAX),
    "datetime": (pa.int64(), MICROSECONDS_MIN, MICROSECONDS_MAX),
}


def _cast(array: pa.Array, scalar: Scalar, wanted: pa.DataType, place: str) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    kind = kind_of(array.type)
    if kind != scalar.kind and (kind, scalar.kind) != ("int", "float"):
        raise StateError(
            f"{place} of type {type_in_words(array.type)} does not fit {scalar}",
            hint=f"give a column of type {type_in_words(wanted)}",
        )
    if scalar.kind == "float" and pa.types.is_integer(array.type):
        return array.cast(wanted, safe=False)  # rounds to the nearest, as float(int) does
    try:
        return exact_cast(array, wanted)
    except pa.ArrowInvalid as error:
        row = _first_row(array, lambda part: exact_cast(part, wanted))
        raise _unkept(array, row, scalar, place) from error


def _check_range(array: pa.Array, scalar: Scalar, place: str) -> None:
    integers, low, high = _TEMPORAL_LIMITS[scalar.kind]
    numbers = array.cast(integers)
    limits = pc.min_max(numbers)
    if len(array) == array.null_count:
        return
    if limits["min"].as_py() < low or limits["max"].as_py() > high:
        outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high)).fill_null(
            pa.scalar(value=False)
        )
        row = int(np.flatnonzero(outside.to_numpy(zero_copy_only=False))[0])
        raise _unkept(numbers, row, scalar, place)


def _fit_struct(array: pa.Array, scalar: Scalar, place: str) -> pa.Array:
    if not pa.types.is_struct(array.type) or array.type.num_fields != len(scalar.items):
        raise StateError(
            f"{place} of type {type_in_words(array.type)} does not fit {scalar}",
            hint=f"give a column of type {type_in_words(arrow_type(scalar))}",
        )
    members = [
        fit_column(member, item, place=f"{place}, member {i}")
        for i, (member, item) in enumerate(zip(array.flatten(), scalar.items, strict=True))
    ]
    return pa.StructArray.from_arrays(
        members,
        fields=list(arrow_type(scalar)),
        mask=array.is_null() if array.null_count else None,
    )


def _first_row(array: pa.Array, attempt: Callable[[pa.Array], Any]) -> int:
    """The first row that the attempt fails on, found by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            attempt(array.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _unkept(array: pa.Array, row: int, scalar: Scalar, place: str) -> DataError:
    return DataError(
        f"{place} holds a value that {scalar} cannot keep exactly",
        hint=f"give values that fit {type_in_words(arrow_type(scalar))}, years 1 to 9999",
        row=row,
        value=str(array[row]),
    )
