"""Adds an entry's value to each row, one read per vnode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.keyed import VNODE, encoded_keys, key_arrays
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD

if TYPE_CHECKING:
    from atoll.steps.lookup.bind import BoundLookup


class Entries(Protocol):
    """The entries of one vnode."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key."""


def look_up(
    step: BoundLookup, tables: list[pa.Table], writer_of: Callable[[int], Entries]
) -> pa.Table:
    """The rows in their order, with the column that the step adds."""
    table = pa.concat_tables(tables).combine_chunks()
    vnodes = table.column(VNODE).to_numpy()
    rows = table.drop_columns([VNODE])
    arrays = key_arrays(step.elements, rows)
    keys = encoded_keys(step, arrays, rows.num_rows)
    order = keys.sort_order()
    order = order[np.argsort(vnodes[order], kind="stable")]
    sorted_keys = keys.take(order).to_bytes()
    sorted_vnodes = vnodes[order]
    found: list[bytes | None] = []
    bounds = np.flatnonzero(np.diff(sorted_vnodes, prepend=-1)).tolist()
    for start, stop in zip(bounds, [*bounds[1:], len(order)], strict=True):
        found.extend(writer_of(int(sorted_vnodes[start])).get_many(sorted_keys[start:stop]))
    if step.initial is not None:
        found = [step.initial if value is None else value for value in found]
    values = step.codec.finish_columns(step.codec.decode_columns(found))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    found_rows = rows.append_column(
        pa.field(step.column, step.codec.value_arrow_type), values.take(pa.array(back))
    )
    if ORIGIN not in rows.column_names:
        return found_rows
    origins = rows.column(ORIGIN)
    return found_rows.drop_columns([ORIGIN]).append_column(ORIGIN_FIELD, origins)
