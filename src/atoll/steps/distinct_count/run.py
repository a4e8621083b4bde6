"""Finds the values that a key has not had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.aggregates.kernels.flags import new_flags
from atoll.codec.keys.decode import decode_columns
from atoll.steps.folding.merging import merged

if TYPE_CHECKING:
    from atoll.steps.distinct_count.bind import BoundFirstSeen
    from atoll.steps.folding.merging import WriterOf
    from atoll.topology.usercode import Rejects


def first_seen(
    step: BoundFirstSeen,
    tables: list[pa.Table],
    writer_of: WriterOf,
    rejects: Rejects | None = None,
) -> pa.Table:
    """The keys of entries with new flags, and the flags, a column each: true, or null."""
    folded = merged(step, tables, writer_of, rejects)
    if not folded.keys:
        return step.emitted.empty_table()
    assert step.codec is not None
    old, new = (step.codec.decode_columns(each)[0] for each in (folded.olds, folded.values))
    flags = new_flags(old, new)
    rows = np.flatnonzero(flags)
    columns = decode_columns(
        [folded.keys[row] for row in rows], [each.kind for each in step.elements]
    )
    flags = flags[rows]
    count = len(step.emitted) - len(columns) + 1
    for bit in range(count):
        unset = flags >> bit & 1 == 0
        columns.append(pa.array(~unset, pa.bool_(), mask=unset))
    return pa.Table.from_arrays(columns[1:], schema=step.emitted)
