"""The extreme values of groups and of pairs of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.order import extreme_rows, order_codes, pair_codes
from atoll.aggregates.kernels.segments import chosen, present, present_rows, spread, taken


def extreme_groups(column: pa.Array, starts: NDArray[np.int64], *, greatest: bool) -> pa.Array:
    """Each group's extreme value; null where a group has none."""
    if not len(starts):
        return column.slice(0, 0)
    dense, dense_starts, groups = present(column, starts)
    if not len(dense):
        return pa.nulls(len(starts), column.type)
    if dense.type == pa.int64():
        ufunc = np.maximum if greatest else np.minimum
        return spread(pa.array(ufunc.reduceat(dense.to_numpy(), dense_starts)), groups)
    rows = extreme_rows(order_codes(dense), dense_starts, greatest=greatest, last=False)
    return spread(taken(dense, rows), groups)


def extreme_of_pairs(old: pa.Array, new: pa.Array, *, greatest: bool) -> pa.Array:
    """Row by row the more extreme of both; the other where one is null."""
    old_codes, new_codes = pair_codes(old, new)
    better = new_codes > old_codes if greatest else new_codes < old_codes
    return chosen(present_rows(new) & (better | ~present_rows(old)), old, new)
