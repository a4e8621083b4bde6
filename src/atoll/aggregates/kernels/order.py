"""Values as integers of the same order, so that one kernel finds extremes of every type.

Floats are ordered as Spark orders them: -0.0 equals 0.0, NaN equals NaN and is the greatest.
Text and bytes are ordered byte by byte (for UTF-8: by code point).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.aggregates.kernels.segments import present_rows

if TYPE_CHECKING:
    from collections.abc import Sequence


Ints = NDArray[np.int64]

_SIGN = np.int64(-(2**63))
_NAN_BITS = np.int64(0x7FF8_0000_0000_0000)


def order_codes(column: pa.Array) -> Ints:
    """An integer per row that compares as the values do; only within this call, nulls undefined."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return order_codes(column.dictionary_decode())
    if pa.types.is_floating(kind):
        return float_codes(column)
    numbers = int_codes(column)
    if numbers is not None:
        return numbers
    if pa.types.is_struct(kind):
        return _struct_codes(column)
    return _ranks(column)


def int_codes(column: pa.Array) -> Ints | None:
    """The values of an integer, bool, date or timestamp column as int64, zero where null.

    None for other types.
    """
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        column = column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())  # noqa: PLR2004
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        return None
    if column.null_count:
        column = column.fill_null(0)
    numbers: NDArray[Any] = column.to_numpy()
    return numbers.astype(np.int64, copy=False)


def float_codes(column: pa.Array) -> Ints:
    """The bits of each float, rearranged to compare as the floats do."""
    filled = column.fill_null(0.0) if column.null_count else column
    values = filled.cast(pa.float64(), safe=False).to_numpy() + 0.0  # -0.0 becomes 0.0
    bits = values.view(np.int64)
    bits = np.where(np.isnan(values), _NAN_BITS, bits)
    return np.where(bits < 0, ~bits ^ _SIGN, bits)


def pair_codes(old: pa.Array, new: pa.Array) -> tuple[Ints, Ints]:
    """Codes of two columns of one length that compare with each other."""
    codes = order_codes(pa.concat_arrays([old, new]))
    return codes[: len(old)], codes[len(old) :]


def extreme_rows(codes: Ints, starts: Ints, *, greatest: bool, last: bool) -> Ints:
    """The row of each group's extreme code; of several the last, or the first."""
    ufunc = np.maximum if greatest else np.minimum
    extremes = ufunc.reduceat(codes, starts)
    counts = np.diff(starts, append=len(codes))
    hits = codes == np.repeat(extremes, counts)
    rows = np.arange(len(codes))
    if last:
        return np.maximum.reduceat(np.where(hits, rows, -1), starts)
    return np.minimum.reduceat(np.where(hits, rows, len(codes)), starts)


def _ranks(column: pa.Array) -> Ints:
    encoded = column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    indices = encoded.indices.fill_null(0) if encoded.indices.null_count else encoded.indices
    if not len(order):
        return np.zeros(len(column), np.int64)
    found: Ints = ranks[indices.to_numpy()]
    return found


def _struct_codes(column: pa.Array) -> Ints:
    """Ranks of tuples: by their first member, then the next; a null member is the least."""
    keys: list[Ints] = []
    for member in column.flatten():
        keys += [present_rows(member).astype(np.int64), order_codes(member)]
    order = np.lexsort(keys[::-1])
    return _dense_ranks(keys, order)


def _dense_ranks(keys: Sequence[Ints], order: Ints) -> Ints:
    changed = np.zeros(len(order), np.int64)
    for key in keys:
        ordered = key[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(changed)
    return ranks
