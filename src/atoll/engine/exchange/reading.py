"""Reads the rows of a split: of a depot's segments or log, or rows staged by an earlier job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.beats import present
from atoll.depot.segments.blocks import BlockRef, read_block
from atoll.engine.exchange.staging import read_staged
from atoll.microbatch.accounts.entries import RowsRead
from atoll.storage.folders import depot_folder
from atoll.storage.places import Place
from atoll.storage.roots import open_store
from atoll.topology.rows import with_origins

if TYPE_CHECKING:
    from atoll.depot.logs.followed import LogReader
    from atoll.depot.migration import DepotMigration
    from atoll.engine.program import Program, Split

_ROWS_PER_BATCH_LEAST = 4_096
_BYTES_PER_BATCH_MAX = 8 * 1024 * 1024
"""Long rows are worth their overhead by themselves; only a single block may be larger."""


def read_split(
    program: Program, split: Split, told: Callable[[RowsRead], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in order, small blocks joined into batches worth their overhead.

    ``told`` is called with all that was read, as it was found.
    """
    told = told or _unheard
    if split.files:
        for file in split.files:
            count = 0
            present().begin("reading staged rows")
            for batch in read_staged(open_store(program.root), file):
                present().beat()
                count += batch.num_rows
                yield batch
            told(RowsRead(split.origin, file.name, 0, count))
        return
    depot, schema = program.depots[split.origin]
    if split.tick is not None:
        ticks = iter([_tick(split.tick, schema)])
        told(RowsRead(split.origin, "0", split.tick[0] - 1, split.tick[0]))
        yield from _numbered(ticks, split.first) if split.origin in program.tracked else ticks
        return
    if depot in program.logs:
        yield from _of_log(program.logs[depot], depot, split, told, split.origin in program.tracked)
        return
    folder = depot_folder(program.root, program.module, depot)
    open_store(folder).fetch([block.file for block in split.blocks])
    since = program.depot_migrations.get(depot, ())
    blocks = (
        _block(folder, split.origin, block, schema, since, told)
        for block in _beating(depot, split.blocks)
    )
    rows = _joined(blocks, schema)
    if split.rows_max is not None:
        rows = _cut(rows, split.rows_max)
    yield from _numbered(rows, split.first) if split.origin in program.tracked else rows


def _of_log(
    reader: LogReader,
    depot: str,
    split: Split,
    told: Callable[[RowsRead], None],
    tracked: bool,  # noqa: FBT001  # whether rows say which record they are of
) -> Iterator[pa.RecordBatch]:
    """The rows of a split of a log; each range is told when all of it was read.

    A record's number goes by its offset: one that is not there uses a number up.
    """
    counts = [0] * len(split.blocks)
    begins = np.cumsum([split.first, *(ref.take for ref in split.blocks)])
    task = present()
    task.begin(("reading depot", depot))
    for index, rows in reader.read(depot, split.blocks):
        task.beat()
        ref, batch = split.blocks[index], rows.batch
        counts[index] += batch.num_rows
        if tracked:
            numbers = rows.offsets + (begins[index] - ref.offset - ref.skip)
            batch = with_origins(batch, pa.array(numbers))
        yield from _cut(iter([batch]), split.rows_max or max(1, batch.num_rows))
    for ref, count in zip(split.blocks, counts, strict=True):
        first = ref.offset + ref.skip
        absent = ref.take - count
        told(RowsRead(split.origin, str(ref.partition), first, first + ref.take, absent))


def _beating(depot: str, blocks: Sequence[BlockRef]) -> Iterator[BlockRef]:
    """The same blocks, and the task says that it reads them."""
    task = present()
    for block in blocks:
        task.begin(("reading depot", depot, "partition", block.partition))
        yield block


def _unheard(_rows: RowsRead) -> None:
    """Nobody counts."""


def _block(  # what reading takes, and who is told
    folder: Place,
    origin: int,
    block: BlockRef,
    schema: pa.Schema,
    since: Sequence[DepotMigration],
    told: Callable[[RowsRead], None],
) -> pa.RecordBatch:
    batch = read_block(folder, block, schema, since)
    first = block.offset + block.skip
    told(RowsRead(origin, str(block.partition), first, first + batch.num_rows))
    return batch


def _tick(tick: tuple[int, int], schema: pa.Schema) -> pa.RecordBatch:
    """The record of a tick."""
    number, at_ms = tick
    columns = [pa.array([number]), pa.array([at_ms * 1_000])]
    fitted = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(fitted, schema=schema)


def _numbered(batches: Iterator[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
    """Each row with its number among the microbatch's records."""
    for batch in batches:
        numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        first += batch.num_rows
        yield with_origins(batch, pa.array(numbers))


def _cut(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of no more than so many."""
    for batch in batches:
        for first in range(0, batch.num_rows, rows_max):
            yield batch.slice(first, rows_max)


def _joined(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and size + batch.nbytes > _BYTES_PER_BATCH_MAX:
            yield _join(waiting, schema)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _ROWS_PER_BATCH_LEAST:
            yield _join(waiting, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _join(waiting, schema)


def _join(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches).cast(schema)
