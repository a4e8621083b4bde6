"""Exact sums of groups: 64-bit ints and decimals never wrap; floats add up in arrival order.

An int column whose greatest possible sum fits 64 bits is summed directly. Otherwise, and always
for decimals, numbers are cut into limbs of 32 bits, whose sums cannot overflow, and joined again
with the carries: exact, and still a handful of passes over the column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.aggregates.kernels.segments import present, present_rows, spread
from atoll.errors import DataError

Ints = NDArray[np.int64]

_LIMB_BITS = 32
_LIMB = np.int64((1 << _LIMB_BITS) - 1)
_DECIMAL_MAX = 10**38 - 1
_WHOLE = 0xFFFF_FFFF_FFFF_FFFF


def sum_groups(column: pa.Array, starts: Ints, label: object) -> pa.Array:
    """The sum of each group's rows that are not null; null for a group that has none.

    Args:
        column: int64, float64 or decimal128(38, 18).
        starts: The first row of each group.
        label: The aggregate, for the error.

    Raises:
        DataError: When a sum of ints or decimals does not fit its type.
    """
    if not len(starts):
        return column.slice(0, 0)
    dense, dense_starts, groups = present(column, starts)
    if not len(dense):
        return pa.nulls(len(starts), column.type)
    if pa.types.is_decimal(column.type):
        limbs = [np.add.reduceat(limb, dense_starts) for limb in _decimal_limbs(dense)]
        return spread(_decimals(limbs, label), groups)
    values = dense.to_numpy()
    if pa.types.is_floating(column.type):
        counts = np.diff(dense_starts, append=len(values))
        group_of_row = np.repeat(np.arange(len(counts)), counts)
        totals = np.bincount(group_of_row, weights=values)  # one by one: reduceat adds in pairs
        return spread(pa.array(totals), groups)
    return spread(pa.array(_sum_ints(values, dense_starts, label)), groups)


def add_columns(old: pa.Array, new: pa.Array, label: object) -> pa.Array:
    """Row by row the sum of both, a null counting as nothing; null where both are.

    Raises:
        DataError: As :func:`sum_groups`.
    """
    if not new.null_count and old.null_count == len(old):
        return new
    if pa.types.is_decimal(new.type):
        limbs = [a + b for a, b in zip(_decimal_limbs(old), _decimal_limbs(new), strict=True)]
        total = _decimals(limbs, label)
    elif pa.types.is_floating(new.type):
        total = pc.add(_filled(old, 0.0), _filled(new, 0.0))
    else:
        total = _add_ints(_filled(old, 0).to_numpy(), _filled(new, 0).to_numpy(), label)
    if old.null_count and new.null_count:
        return pc.if_else(pc.or_(old.is_valid(), new.is_valid()), total, pa.scalar(None, new.type))
    return total


def means(totals: pa.Array, counts: pa.Array) -> pa.Array:
    """Row by row total / count as floats; null where the count is 0."""
    quotients = pc.divide(
        totals.cast(pa.float64(), safe=False), counts.cast(pa.float64(), safe=False)
    )
    return pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.float64()), quotients)


def _filled(column: pa.Array, value: float) -> pa.Array:
    return column.fill_null(pa.scalar(value, column.type)) if column.null_count else column


def _sum_ints(values: Ints, starts: Ints, label: object) -> Ints:
    greatest = max(abs(int(values.max())), abs(int(values.min())))
    longest = int(np.diff(starts, append=len(values)).max())
    if greatest * longest < 1 << 63:
        return np.add.reduceat(values, starts)
    low = np.add.reduceat(values & _LIMB, starts)
    high = np.add.reduceat(values >> _LIMB_BITS, starts) + (low >> _LIMB_BITS)
    if (high != high.astype(np.int32)).any():
        raise _overflow(label, "64-bit ints", "long", "decimal(38, 18) or double")
    joined: Ints = (high << _LIMB_BITS) | (low & _LIMB)
    return joined


def _add_ints(old: Ints, new: Ints, label: object) -> pa.Array:
    total = old + new
    if (((old ^ total) & (new ^ total)) < 0).any():
        raise _overflow(label, "64-bit ints", "long", "decimal(38, 18) or double")
    return pa.array(total)


# --- decimals ------------------------------------------------------------------------------


def _decimal_limbs(column: pa.Array) -> list[Ints]:
    """Four columns of 32 bits, lowest first; only the highest is signed. Nulls are zero."""
    raw = np.frombuffer(column.buffers()[1], np.uint32)
    words = raw[4 * column.offset : 4 * (column.offset + len(column))].reshape(-1, 4)
    limbs = [words[:, i].astype(np.int64) for i in range(3)]
    limbs.append(np.ascontiguousarray(words[:, 3]).view(np.int32).astype(np.int64))
    if column.null_count:
        valid = present_rows(column)
        limbs = [np.where(valid, limb, 0) for limb in limbs]
    return limbs


def _decimals(limbs: list[Ints], label: object) -> pa.Array:
    """The column of decimals from limbs whose carries are still to be moved on."""
    carried: list[Ints] = []
    carry: Any = np.int64(0)
    for limb in limbs[:3]:
        full = limb + carry
        carried.append(full & _LIMB)
        carry = full >> _LIMB_BITS
    top = limbs[3] + carry
    high = (top << _LIMB_BITS) | carried[2]
    low = (carried[1] << _LIMB_BITS) | carried[0]
    if (top != top.astype(np.int32)).any() or _too_long(high, low):
        raise _overflow(label, "decimals of 38 digits", "decimal(38, 18)", "double")
    words = np.stack([low, high], axis=1)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(pa.decimal128(38, 18), len(words), buffers)


def _too_long(high: Ints, low: Ints) -> bool:
    """Whether a number has more than 38 digits; only those near the limit are looked at."""
    limit = _DECIMAL_MAX >> 64
    near = np.flatnonzero((high >= limit) | (high <= ~limit))
    return any(
        abs((int(high[i]) << 64) + (int(low[i]) & _WHOLE)) > _DECIMAL_MAX for i in near.tolist()
    )


def _overflow(label: object, kind: str, type_name: str, wider: str) -> DataError:
    return DataError(
        f"agg.{label} went beyond the range of {kind}",
        hint=f"{type_name} is too narrow for these sums: cast the expression to {wider} "
        "and declare the PState to match",
        aggregate=str(label),
    )
