"""Where Arrow's types and Python's values part: times that no datetime can be, and small floats.

Arrow's timestamps and dates reach further than Python's: one that lies beyond is stored without a
word and cannot be read again. And a number too large for a float of 32 bits becomes infinite.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

_EPOCH = dt.date(1970, 1, 1)
_DAYS = ((dt.date.min - _EPOCH).days, (dt.date.max - _EPOCH).days + 1)
_SECONDS_A_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}

Mask = NDArray[np.bool_]


def refuse_misfits(made: pa.Array, make: Callable[[pa.DataType], pa.Array]) -> None:
    """Refuse an array that does not hold what it was made of.

    Args:
        made: The array.
        make: Makes it again of the same values, with another type.

    Raises:
        pa.ArrowInvalid: When a time in it is one that no datetime can be, or a number became
            infinite.
    """
    if beyond_datetime(made) is not None:
        raise pa.ArrowInvalid("a time in it is before the year 1 or after 9999 in UTC")
    if type_holds(made.type, pt.is_float32) and any(
        _infinite(each).any() for each in _leaves(made)
    ):
        number = too_large(made, make(_widened(made.type)))
        if number is not None:
            raise pa.ArrowInvalid(f"{number!r} is too large for a float of 32 bits")


def beyond_datetime(column: pa.Array) -> Mask | None:
    """Per row whether a time in it is before the year 1 or after 9999; None when none is."""
    if not type_holds(column.type, _is_time) or not len(column):
        return None
    found = _rows_beyond(column)
    return found if found.any() else None


def too_large(small: pa.Array, wide: pa.Array) -> Any:
    """The first number that became infinite on its way into floats of 32 bits, or None.

    Args:
        small: With floats of 32 bits.
        wide: The same values with floats of 64 bits, or decimals, in place of those.
    """
    for narrow, broad in zip(_leaves(small), _leaves(wide), strict=True):
        if not pt.is_float32(narrow.type):
            continue
        places = np.flatnonzero(_infinite(narrow) & ~_infinite(broad))
        if places.size:
            return broad[int(places[0])].as_py()
    return None


def holds_infinity(batch: pa.RecordBatch) -> bool:
    """Whether a float in it is infinite."""
    columns = (each for each in batch.columns if type_holds(each.type, pt.is_floating))
    return any(_infinite(leaf).any() for column in columns for leaf in _leaves(column))


@lru_cache(maxsize=1024)
def type_holds(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or one that lies in it, is such a one."""
    if pt.is_dictionary(kind):
        return type_holds(kind.value_type, wanted)
    if kind.num_fields:
        return any(type_holds(kind.field(at).type, wanted) for at in range(kind.num_fields))
    return bool(wanted(kind))


def _is_time(kind: pa.DataType) -> bool:
    """Those of nanoseconds end long before Python's do."""
    return bool(pt.is_date(kind) or (pt.is_timestamp(kind) and kind.unit in _PER_SECOND))


def _rows_beyond(column: pa.Array) -> Mask:
    kind = column.type
    found: Mask = np.zeros(len(column), dtype=np.bool_)
    if not type_holds(kind, _is_time):
        return found
    if pt.is_dictionary(kind):
        return _rows_beyond(column.dictionary_decode())
    if pt.is_struct(kind):
        for each in column.flatten():
            found |= _rows_beyond(each)
        return found
    if pt.is_map(kind):
        inner = _rows_beyond(column.keys) | _rows_beyond(column.items)
    elif kind.num_fields:
        if pt.is_fixed_size_list(kind):
            column = column.cast(pa.list_(kind.value_field))
        inner = _rows_beyond(column.values)
    else:
        return _beyond(column)
    counts = np.concatenate([[0], np.cumsum(inner)])
    ends = column.offsets.to_numpy()
    found = counts[ends[1:]] > counts[ends[:-1]]
    found &= column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _beyond(times: pa.Array) -> Mask:
    kind = times.type
    if pt.is_date32(kind):
        numbers, unit = times.view(pa.int32()), 1
    else:
        per_second = 1_000 if pt.is_date64(kind) else _PER_SECOND[kind.unit]
        numbers, unit = times.view(pa.int64()), per_second * _SECONDS_A_DAY
    first, end = (day * unit for day in _DAYS)
    outside = pc.or_(pc.less(numbers, first), pc.greater_equal(numbers, end))
    found: Mask = pc.fill_null(outside, False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return found


def _infinite(numbers: pa.Array) -> Mask:
    """Which floats are; no other number is."""
    if not pt.is_floating(numbers.type):
        return np.zeros(len(numbers), dtype=np.bool_)
    found: Mask = np.isinf(numbers.to_numpy(zero_copy_only=False))
    return found


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """The simple columns in it, each as one array of all its values."""
    kind = column.type
    if pt.is_dictionary(kind):
        yield from _leaves(column.dictionary_decode())
    elif pt.is_struct(kind):
        for each in column.flatten():
            yield from _leaves(each)
    elif pt.is_map(kind):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif kind.num_fields:
        yield from _leaves(column.flatten())
    else:
        yield column


@lru_cache(maxsize=1024)
def _widened(kind: pa.DataType) -> pa.DataType:
    """The type with floats of 64 bits in place of those of 32."""
    if pt.is_float32(kind):
        return pa.float64()
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_widened(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(_widened(kind.key_type), _widened(kind.item_type))
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_widened(kind.value_type)))
    return kind
