"""Adds an entry's value to each row, one read per vnode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.keyed import VNODE, encoded_keys, key_arrays
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD

if TYPE_CHECKING:
    from atoll.steps.lookup.bind import BoundLookup
    from atoll.steps.lookup.readings import Entries


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
    found: list[Any] = []
    bounds = np.flatnonzero(np.diff(sorted_vnodes, prepend=-1)).tolist()
    for start, stop in zip(bounds, [*bounds[1:], len(order)], strict=True):
        entries = writer_of(int(sorted_vnodes[start]))
        found += step.reading.read(entries, sorted_keys[start:stop])
    values = step.reading.column(found)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    found_rows = rows.append_column(
        pa.field(step.column, step.reading.column_type), values.take(pa.array(back))
    )
    if ORIGIN not in rows.column_names:
        return found_rows
    origins = rows.column(ORIGIN)
    return found_rows.drop_columns([ORIGIN]).append_column(ORIGIN_FIELD, origins)
