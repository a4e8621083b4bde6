"""What a microbatch changed in a PState, as rows: keys, old value, new value.

The old values are those of the reverse logs, so a change stream costs no read of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.keys.decode import decode_columns

if TYPE_CHECKING:
    from atoll.pstate.converter import Converter
    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.changes.bind import BoundChanges


def changes(
    step: BoundChanges,
    writers: dict[int, VnodeWriter],
    converter: Callable[[int], Converter | None],
) -> pa.Table:
    """One row per entry whose value differs from before the microbatch, by vnode and key.

    That a migration rewrote an entry is no change: both values are those of the present schema.
    """
    keys: list[bytes] = []
    olds: list[bytes | None] = []
    news: list[bytes | None] = []
    for vnode, writer in writers.items():
        convert = converter(vnode)
        for key, stored, new in writer.changed():
            old = stored if stored is None or convert is None else convert(key, stored)
            if old == new:
                continue
            keys.append(key)
            olds.append(old)
            news.append(new)
    columns = decode_columns(keys, list(step.kinds))
    columns = [*columns, _values(step, olds), _values(step, news)]
    return pa.Table.from_arrays(columns, schema=step.emitted)


def _values(step: BoundChanges, stored: list[bytes | None]) -> pa.Array:
    if step.codec is None:  # a set's element: there or not
        return pa.array([value is not None for value in stored], pa.bool_())
    return step.codec.finish_columns(step.codec.decode_columns(stored))
