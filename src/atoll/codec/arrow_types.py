"""The Arrow types of scalars and of whole values, and the fitting of columns to them.

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
from atoll.codec.scalars import (
    DAYS_MAX,
    DAYS_MIN,
    MICROSECONDS_MAX,
    MICROSECONDS_MIN,
)
from atoll.ddl import type_in_words
from atoll.errors import DataError, StateError
from atoll.schema import List, Map, Node, Scalar, Set, Struct

TIMESTAMP = pa.timestamp("us", "UTC")

_ARROW_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "datetime": TIMESTAMP,
    "decimal": pa.decimal128(38, 18),
}


def arrow_type(scalar: Scalar) -> pa.DataType:
    """The Arrow type of a column of this scalar.

    A decimal has 38 digits, 18 of them after the point, as Spark's own for Python's Decimal; a
    tuple is a struct with the fields ``f0``, ``f1`` and so on.
    """
    if scalar.kind == "tuple":
        return pa.struct(
            [pa.field(f"f{i}", arrow_type(item)) for i, item in enumerate(scalar.items)]
        )
    return _ARROW_TYPES[scalar.kind]


def value_type(node: Node) -> pa.DataType:
    """The Arrow type of a column of whole values of this node; a set is a list there."""
    match node:
        case Scalar():
            return arrow_type(node)
        case List(item) | Set(item):
            return pa.list_(value_type(item))
        case Map(key, value):
            return pa.map_(value_type(key), value_type(value))
        case Struct():
            return pa.struct([pa.field(name, value_type(field)) for name, field in node.fields])


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


_ACCEPTED: dict[str, Callable[[pa.DataType], bool]] = {
    "bool": pa.types.is_boolean,
    "int": pa.types.is_integer,
    "float": lambda kind: pa.types.is_floating(kind) or pa.types.is_integer(kind),
    "str": lambda kind: (
        pa.types.is_unicode(kind)
        or pa.types.is_large_unicode(kind)
        or pa.types.is_string_view(kind)
    ),
    "bytes": lambda kind: (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ),
    "date": pa.types.is_date,
    "datetime": lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    "decimal": pa.types.is_decimal,
}

_TEMPORAL_LIMITS: dict[str, tuple[pa.DataType, int, int]] = {
    "date": (pa.int32(), DAYS_MIN, DAYS_MAX),
    "datetime": (pa.int64(), MICROSECONDS_MIN, MICROSECONDS_MAX),
}


def _cast(array: pa.Array, scalar: Scalar, wanted: pa.DataType, place: str) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    accepted = _ACCEPTED.get(scalar.kind)
    if accepted is None or not accepted(array.type):
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
