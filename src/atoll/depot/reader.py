"""Reading a depot: offsets to blocks, blocks to records, from any process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from atoll.ddl import to_ddl
from atoll.depot.migration import DepotMigration
from atoll.depot.segments.blocks import BlockRef, read_blocks
from atoll.depot.segments.chain import SegmentChain
from atoll.depot.start import StartFrom
from atoll.storage.places import Place


class DepotReader:
    """Reads a depot that another process may be writing.

    It sees what is on disk, which may be a moment ahead of what is acknowledged: use it for
    looking, and the writer's :class:`~atoll.depot.depot.Depot` for deciding.

    Args:
        folder: The depot's folder.
        schema: The records' schema.
        clock: Seconds since the epoch.
        migrations: What records of older schemas go through.

    Raises:
        DamageError: When something that was stored is missing or cannot be read.
    """

    def __init__(
        self,
        folder: Place | str,
        schema: pa.Schema,
        clock: Callable[[], float] = time.time,
        migrations: tuple[DepotMigration, ...] = (),
    ) -> None:
        self.folder = Path(folder) if isinstance(folder, str) else folder
        self.schema = schema
        self._clock = clock
        ddl = to_ddl(schema) if migrations else None
        self._chain = SegmentChain(self.folder, None, ddl, migrations)
        self._chain.refresh()

    def refresh(self) -> None:
        """Look at the folder again."""
        self._chain.refresh()

    def start_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the oldest offset still there; empty before the first opening."""
        return self._chain.start_offsets()

    def end_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the offset after the last record, at the last refresh."""
        return self._chain.end_offsets()

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """The blocks that hold the offsets from ``start`` up to ``end``."""
        return self._chain.blocks(partition, start, end)

    def read(self, partition: int, start: int, end: int) -> pa.Table:
        """The records with the offsets from ``start`` up to ``end``."""
        return read_range(self._chain, self.schema, partition, start, end)

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset per depot partition at which to begin."""
        return resolve_start(self._chain, start_from, int(self._clock() * 1000))


def read_range(
    chain: SegmentChain, schema: pa.Schema, partition: int, start: int, end: int
) -> pa.Table:
    """The records of a range of offsets as a table.

    Raises:
        DepotError: When an offset of the range is not there.
        DamageError: When its bytes are not the ones written.
    """
    refs = chain.blocks(partition, start, end)
    batches = read_blocks(chain.folder, refs, schema, chain.migrations)
    return pa.Table.from_batches(batches, schema=schema)


def resolve_start(chain: SegmentChain, start_from: StartFrom, now_ms: int) -> tuple[int, ...]:
    """The offset per depot partition at which a topology begins."""
    with chain.lock:
        first, last = chain.start_offsets(), chain.end_offsets()
        plain = start_from.offsets(first, last)
        if plain is not None:
            return plain
        after = start_from.after_ms(now_ms)
        return tuple(chain.offset_after(partition, after) for partition in range(len(last)))
