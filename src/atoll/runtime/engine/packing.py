"""Puts the records of one copy into few rows on their way to it. Arrow only; nothing is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.runtime.engine.intake import copies_of

PACKED_DDL = "copy long, records binary"

_PACKED = pa.schema([("copy", pa.int64()), ("records", pa.binary())])
_ROWS_PER_COPY = 32_768
_ROWS_MAX, _BYTES_MAX = 262_144, 32 << 20
_ROUTING = ("copy", "vnode", "turn")
"""What says which copy takes a record is known then."""


def packer(
    copies: int,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A batch step from records to one row per copy that has any, many thousand records at a time.

    A record for all copies is in a row of each, between the copy's own records before and after it.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _gathered(batches, min(_ROWS_PER_COPY * copies, _ROWS_MAX)):
            owners = copies_of(table, copies)
            parts = list(_parts(table.drop_columns(_ROUTING), owners, copies))
            columns = {"copy": [copy for copy, _ in parts], "records": [data for _, data in parts]}
            yield pa.RecordBatch.from_pydict(columns, schema=_PACKED)

    return pack


def unpacked(data: bytes) -> pa.RecordBatch:
    """The records of one row, as they were, but for what said which copy takes them."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all().combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _parts(table: pa.Table, owners: NDArray[np.int64], copies: int) -> Iterable[tuple[int, bytes]]:
    for_all = owners == 0
    present = set(np.unique(owners).tolist()) - {0}
    if for_all.any():
        present |= set(range(1, copies + 1))
    if present == {1}:
        return [(1, _bytes(table))]
    return [(copy, _bytes(table.take(_rows(owners, copy, copies)))) for copy in sorted(present)]


def _rows(owners: NDArray[np.int64], copy: int, copies: int) -> pa.Array:
    """Which records are in a copy's row; one that has gone takes its own only."""
    mine = owners == copy
    return pa.array(np.flatnonzero(mine | (owners == 0) if copy <= copies else mine))


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _gathered(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """Small batches together, as far as rows may be large."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, rows_max):
            part = batch.slice(start, rows_max)
            bytes_more = part.nbytes
            if held and (rows + part.num_rows > rows_max or size + bytes_more > _BYTES_MAX):
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows += part.num_rows
            size += bytes_more
    if held:
        yield pa.Table.from_batches(held)
