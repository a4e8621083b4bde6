"""Counts, means and squared distances of groups, joined without losing digits.

Two parts of counts a and b whose means lie d apart have the distances of both and ``d * d * a * b
/ (a + b)`` (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
Sample Variances", 1979). Of many parts at once the distances are taken from their common mean,
which is found as a distance from the first part, so that large values do not swallow small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.segments import Positions, ones, present_rows

Floats = NDArray[np.float64]


def lifted(column: pa.Array) -> list[pa.Array]:
    """A state of each value: at no distance from itself, or NaN when it is not finite."""
    valid = present_rows(column)
    values = _floats(column.cast(pa.float64(), safe=False))
    squares = np.where(np.isfinite(values), 0.0, np.nan)
    return [ones(valid), pa.array(values), pa.array(squares)]


def reduced(states: Sequence[pa.Array], starts: Positions) -> list[pa.Array]:
    """One state of each group's."""
    counts, means, squares = (_floats(each) for each in states)
    sizes = np.diff(starts, append=len(counts))
    groups = np.repeat(np.arange(len(starts)), sizes)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite makes NaNs
        first = means[starts]
        total = np.bincount(groups, counts, len(starts))
        divisor = np.maximum(total, 1)
        apart = np.bincount(groups, counts * (means - first[groups]), len(starts)) / divisor
        rest = np.where(counts > 0, means - (first + apart)[groups], 0.0)
        off = np.bincount(groups, counts * rest, len(starts))  # what rounding left of the mean
        within = np.bincount(groups, squares + counts * rest * rest, len(starts))
        return _state(total, first + apart, np.maximum(within - off * off / divisor, 0.0))


def merged(old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
    """Row by row both together; what the store holds nothing of counts as nothing."""
    if not new[0].null_count and old[0].null_count == len(old[0]):
        return list(new)
    count, mean, squares = (_floats(each) for each in old)
    more, other, others = (_floats(each) for each in new)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite makes NaNs
        total = count + more
        divisor = np.maximum(total, 1)
        apart = np.where((count > 0) & (more > 0), other - mean, 0.0)
        joined = np.where(count > 0, mean + apart * more / divisor, other)
        return _state(total, joined, squares + others + apart * apart * count * more / divisor)


def measured(counts: pa.Array, squares: pa.Array, lessened: int, *, root: bool) -> pa.Array:
    """Squared distances over the lessened count, or the root of that; null of too few values."""
    number, total = _floats(counts), _floats(squares)
    few = number <= lessened
    variance = total / np.where(few, 1, number - lessened)
    return pa.array(np.sqrt(variance) if root else variance, mask=few)


def _floats(column: pa.Array) -> Floats:
    """The values as floats, zero where null."""
    filled = column.fill_null(pa.scalar(0, column.type)) if column.null_count else column
    values: Floats = filled.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return values


def _state(counts: NDArray[Any], means: Floats, squares: Floats) -> list[pa.Array]:
    return [pa.array(counts.astype(np.int64)), pa.array(means), pa.array(squares)]
