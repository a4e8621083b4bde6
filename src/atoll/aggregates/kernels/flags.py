"""Conditions as the bits of one int per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def flags_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Bit ``i`` is set where condition ``i`` holds; null does not hold."""
    flags = np.zeros(len(columns[0]), np.int64)
    for bit, column in enumerate(columns):
        held = column.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
        flags |= held.astype(np.int64) << bit
    return pa.array(flags)


def any_of_groups(flags: pa.Array, starts: NDArray[np.int64]) -> pa.Array:
    """The bits that any row of a group has."""
    return pa.array(np.bitwise_or.reduceat(flags.to_numpy(), starts))


def either(old: pa.Array, new: pa.Array) -> pa.Array:
    """The bits of both, row by row; null has none."""
    return pa.array(_ints(old) | _ints(new))


def new_flags(old: pa.Array, new: pa.Array) -> NDArray[np.int64]:
    """The bits that only the new ones have."""
    return _ints(new) & ~_ints(old)


def _ints(flags: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = flags.fill_null(0).to_numpy()
    return found
