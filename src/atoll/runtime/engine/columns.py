"""Events as Arrow columns, straight from their JSON, where that says exactly the same.

Arrow's reader is many times as fast as decoding event by event, but it takes liberties: it makes a
column of floats of 1 and 1.5, an instant of a text that looks like one, and one kind of null of a
field that is null and one that is missing. So it is used only where none of that can have
happened; any other events are decoded one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt
from numpy.typing import NDArray

from atoll.runtime.actors.interface import Event
from atoll.runtime.batches import from_batch

ROWS_LEAST = 256
"""For fewer events columns are not worth their price."""

_BLOCK_BYTES = 64 << 20


class Columns(NamedTuple):
    """Events of a wave as columns.

    Attributes:
        places: The place of each event's origin in the wave; ascending.
        batch: The events.
    """

    places: NDArray[np.int64]
    batch: pa.RecordBatch

    def events(self) -> list[tuple[int, Event]]:
        """Place and event, one by one."""
        return list(zip(self.places.tolist(), from_batch(self.batch), strict=True))


def read_columns(bodies: pa.Array) -> pa.RecordBatch | None:
    """The JSON objects as columns, or None when columns could not say exactly the same."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(bodies)], pa.int32()), bodies)
    text = pc.binary_join(whole, "\n")[0].as_buffer()
    if len(text) > _BLOCK_BYTES or b"null" in text.to_pybytes():
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(len(text), 1)),
        )
    except (pa.ArrowException, OSError):
        return None
    table = table.combine_chunks()
    if table.num_rows != len(bodies) or not table.num_columns:
        return None
    if not all(_is_exact(column) for column in table.columns):
        return None
    batches = table.to_batches()
    return batches[0] if len(batches) == 1 else None


def _is_exact(column: Any) -> bool:
    """Whether a column can have come of one kind of value only."""
    kind = column.type
    if pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_string(kind):
        return True
    if not pt.is_floating(kind):
        return False  # objects, lists, and what only looks like an instant
    whole = pc.equal(pc.floor(column), column)
    return not pc.any(whole).as_py()
