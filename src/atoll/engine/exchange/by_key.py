"""Rows that came to an actor, by vnode and key, in the order in which those of a key came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from atoll.engine.exchange.keyed import VNODE, KeyedStep, KeyElement, encoded_keys, key_arrays

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RowsByKey:
    """Rows by vnode and key, those of a key in the order in which they came.

    Attributes:
        order: Their positions.
        keys: The distinct keys.
        starts: Where in the order the rows of each begin; one more at the end.
        vnodes: The vnode of each distinct key.
    """

    order: NDArray[np.int64]
    keys: list[bytes]
    starts: NDArray[np.int64]
    vnodes: NDArray[np.int64]

    def slices(self) -> Iterator[tuple[int, range]]:
        """Each vnode, and which of the distinct keys are its own."""
        bounds = np.flatnonzero(np.diff(self.vnodes, prepend=-1)).tolist()
        for start, stop in zip(bounds, [*bounds[1:], len(self.keys)], strict=True):
            yield int(self.vnodes[start]), range(start, stop)


def rows_by_key(step: KeyedStep, elements: tuple[KeyElement, ...], rows: pa.Table) -> RowsByKey:
    """The rows of a step by the key that these elements make."""
    vnodes = rows.column(VNODE).to_numpy().astype(np.int64)
    encoded = encoded_keys(step, key_arrays(elements, rows), rows.num_rows)
    order = encoded.sort_order()
    order = order[np.argsort(vnodes[order], kind="stable")]
    ordered = encoded.take(order)
    starts = ordered.group_starts()
    keys = ordered.take(starts).to_bytes()
    return RowsByKey(order, keys, np.append(starts, len(order)), vnodes[order[starts]])
