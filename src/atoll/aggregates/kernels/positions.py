"""One row of each group: the first or the last, by arrival or by an order column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.aggregates.kernels.order import extreme_rows, order_codes, pair_codes
from atoll.aggregates.kernels.segments import (
    Mask,
    Positions,
    chosen,
    present_rows,
    taken,
)


def marks(rows: int) -> pa.Array:
    """The companion of values that were seen, as opposed to a state that is absent."""
    return pa.array(np.ones(rows, np.bool_))


def null_where_null(order: pa.Array, value: pa.Array) -> pa.Array:
    """The order, null also where the value is: such rows never count."""
    if not value.null_count:
        return order
    return pc.if_else(value.is_valid(), order, pa.scalar(None, order.type))


def reduce_arrived(
    states: Sequence[pa.Array], starts: Positions, *, final: bool, ignore_nulls: bool
) -> list[pa.Array]:
    """Each group's first or last row; with ``ignore_nulls`` of those with a value."""
    rows = len(states[-1])
    ends = np.append(starts[1:], rows)[: len(starts)]
    if not (ignore_nulls and states[-1].null_count):
        return [taken(state, ends - 1 if final else starts) for state in states]
    valid = present_rows(states[-1])
    positions = np.arange(rows)
    if final:
        found = np.maximum.reduceat(np.where(valid, positions, -1), starts) if rows else starts
        return [_taken_or_null(state, found, found >= 0) for state in states]
    found = np.minimum.reduceat(np.where(valid, positions, rows), starts) if rows else starts
    return [_taken_or_null(state, found, found < rows) for state in states]


def merge_arrived(
    old: Sequence[pa.Array], new: Sequence[pa.Array], *, final: bool, ignore_nulls: bool
) -> list[pa.Array]:
    """For a last value the new state, for a first one the old, if there is one."""
    if final and not ignore_nulls:
        return list(new)
    take_new = present_rows(new[-1]) if final else ~present_rows(old[0])
    return [chosen(take_new, o, n) for o, n in zip(old, new, strict=True)]


def reduce_ordered(
    states: Sequence[pa.Array], starts: Positions, *, greatest: bool
) -> list[pa.Array]:
    """Each group's row of extreme order; null where no row has an order."""
    order = states[0]
    if not len(starts):
        return [state.slice(0, 0) for state in states]
    valid = present_rows(order)
    if valid.all():
        rows = extreme_rows(order_codes(order), starts, greatest=greatest, last=greatest)
        return [taken(state, rows) for state in states]
    counts = np.add.reduceat(valid, starts, dtype=np.int64)
    left = counts > 0
    found = np.zeros(len(starts), np.int64)
    if left.any():
        dense = np.flatnonzero(valid)
        dense_starts = (np.cumsum(counts) - counts)[left]
        codes = order_codes(order)[dense]
        rows = extreme_rows(codes, dense_starts, greatest=greatest, last=greatest)
        found[left] = dense[rows]
    return [_taken_or_null(state, found, left) for state in states]


def merge_ordered(
    old: Sequence[pa.Array], new: Sequence[pa.Array], *, greatest: bool
) -> list[pa.Array]:
    """The state of the more extreme order; of equal ones the later for a last value."""
    old_codes, new_codes = pair_codes(old[0], new[0])
    better = new_codes >= old_codes if greatest else new_codes < old_codes
    take_new = present_rows(new[0]) & (better | ~present_rows(old[0]))
    return [chosen(take_new, o, n) for o, n in zip(old, new, strict=True)]


def _taken_or_null(column: pa.Array, positions: NDArray[np.int64], found: Mask) -> pa.Array:
    return column.take(pa.array(np.where(found, positions, 0), mask=~found))
