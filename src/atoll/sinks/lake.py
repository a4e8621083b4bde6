"""What the sinks for lake tables have in common: rows spooled, changes told apart, ids to go by."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from atoll.sinks.postgres_types import columns_of, prepared

if TYPE_CHECKING:
    from atoll.sinks.interface import Opening, SinkParcel, SinkRows

NUMBER, MICROBATCH, TIMELINE = "atoll.number", "atoll.microbatch", "atoll.timeline"
IDENTITY = "atoll.identity"
CHANGED = "_atoll_there"
"""In the changes of a PState, beside keys and values: whether the entry is there now."""


def table_schema(rows: SinkRows, value: str, *, follows: bool) -> pa.Schema:
    """The columns of the table.

    Args:
        rows: What the sink gets.
        value: What the value of a PState's entry is called, when it is no struct.
        follows: Whether the table holds a PState's entries, rather than the rows of its changes.

    Raises:
        SinkError: When two would have one name, or an entry has no key.
    """
    if not (rows.changes and follows):
        return rows.schema
    return pa.schema(list(columns_of(rows, value).items()))


def about(parcel: SinkParcel, opening: Opening) -> dict[str, str]:
    """What a version or snapshot says of what it holds."""
    return {
        IDENTITY: opening.identity,
        NUMBER: str(parcel.number),
        MICROBATCH: str(parcel.microbatch),
        TIMELINE: str(parcel.timeline),
    }


@contextlib.contextmanager
def spooled(parcel: SinkParcel) -> Iterator[pa.Table]:
    """All rows of a parcel as a table that lies in a file, not in memory.

    They are read to the end before any of them is written: what breaks off breaks off here.
    """
    with tempfile.NamedTemporaryFile(prefix="atoll-parcel-", suffix=".arrow") as file:
        with pa.ipc.new_file(file, parcel.schema) as writer:
            for batch in parcel.batches():
                writer.write_batch(batch)
        file.flush()
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


def entries_of(changes: pa.Table, rows: SinkRows, value: str) -> tuple[pa.Table, pa.Table]:
    """Of a PState's changes the entries that are there now, and the keys of those that are not."""
    schema = table_schema(rows, value, follows=True)
    keys = pa.schema([schema.field(name) for name in rows.keys])
    there, gone = [], []
    for batch in changes.to_batches():
        there.append(prepared(batch, rows, value, there=True).cast(schema))
        gone.append(prepared(batch, rows, value, there=False).cast(keys))
    return pa.Table.from_batches(there, schema), pa.Table.from_batches(gone, keys)


def before_of(changes: pa.Table, rows: SinkRows) -> pa.Table:
    """Of a PState's changes the keys of entries that were there before."""
    old = changes.column("old")
    was = old if rows.of == "elements" else pc.is_valid(old)
    return changes.filter(was).select(list(rows.keys))
