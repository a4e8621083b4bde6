"""Groups of adjacent rows: nulls left out and put back, rows picked, columns chosen between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]


def present_rows(column: pa.Array) -> Mask:
    """Which rows are not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def taken(column: pa.Array, positions: NDArray[Any]) -> pa.Array:
    """The rows at these positions."""
    return column.take(pa.array(positions))


def present(column: pa.Array, starts: Positions) -> tuple[pa.Array, Positions, Mask | None]:
    """Leave out the rows that are null.

    Returns:
        The rows that are left, the starts of the groups that still have some, and which groups
        those are (None: all).
    """
    if not column.null_count:
        return column, starts, None
    valid = present_rows(column)
    counts = np.add.reduceat(valid, starts, dtype=np.int64) if len(starts) else starts
    left = counts > 0
    ends = np.cumsum(counts[left])
    return column.filter(pa.array(valid)), ends - counts[left], None if left.all() else left


def spread(column: pa.Array, groups: Mask | None) -> pa.Array:
    """One row per group again: null where :func:`present` left a group out."""
    if groups is None:
        return column
    return column.take(pa.array(np.cumsum(groups) - 1, mask=~groups))


def chosen(take_new: Mask, old: pa.Array, new: pa.Array) -> pa.Array:
    """Row by row ``new`` where the mask says so, else ``old``."""
    if take_new.all():
        return new
    return pc.if_else(pa.array(take_new), new, old)


def ones(mask: Mask) -> pa.Array:
    """An int64 column of one where the mask holds, else zero."""
    return pa.array(mask.astype(np.int64))


def nulls(rows: int, kind: pa.DataType) -> pa.Array:
    """A column of nothing."""
    return pa.nulls(rows, kind)


def heads(starts: Positions, rows: int, count: int) -> tuple[Positions, Positions]:
    """The positions of the first ``count`` rows of each group, and where each group begins."""
    sizes = np.diff(starts, append=rows)
    place = np.arange(rows) - np.repeat(starts, sizes)
    kept = np.minimum(sizes, count)
    return np.flatnonzero(place < count), np.cumsum(kept) - kept
