"""A depot as another module's topology reads it, whoever writes it.

The writer may run in this process or another, or not at all. A record that was seen here is made
durable before a plan names its offset: the writer may not have acknowledged it yet, and what a
microbatch has processed must not vanish with the machine's power.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

import pyarrow as pa

from atoll.ddl import to_ddl
from atoll.depot.migration import DepotMigration
from atoll.depot.reader import resolve_start
from atoll.depot.segments.blocks import BlockRef
from atoll.depot.segments.chain import SegmentChain
from atoll.depot.segments.segment_file import sync_segment
from atoll.depot.start import StartFrom
from atoll.storage.glances import look_seconds
from atoll.storage.places import Place


class MirrorDepot(Protocol):
    """A depot as topologies read it whose writer is not this module. Safe to share by threads."""

    schema: pa.Schema
    migrations: tuple[DepotMigration, ...]

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""
        ...

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset after the last durable record, as of now."""
        ...

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """Where the offsets from ``start`` up to ``end`` lie."""
        ...

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes the records of a range take: runs, each with its end and its bytes."""
        ...

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset per depot partition at which a topology begins."""
        ...


class SegmentMirror(MirrorDepot):
    """Follows a depot that another module owns. Safe to share between threads.

    Args:
        folder: The depot's folder.
        schema: The records' schema.
        partitions: How many depot partitions it has.
        migrations: What its records of older schemas go through.
    """

    def __init__(
        self,
        folder: Place,
        schema: pa.Schema,
        partitions: int,
        migrations: tuple[DepotMigration, ...] = (),
    ) -> None:
        """Look at the folder.

        Raises:
            DamageError: When something that was stored is missing or cannot be read.
        """
        self.schema = schema
        self.migrations = migrations
        self._chain = SegmentChain(folder, partitions, to_ddl(schema), migrations)
        self._lock = threading.Lock()
        self._ends: tuple[int, ...] = ()
        self._refreshed = float("-inf")
        self._refresh()

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""
        return self._chain.start_offsets()

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset after the last durable record, as of now."""
        return self._refresh()

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """Where the offsets from ``start`` up to ``end`` lie.

        Raises:
            DepotError: When an offset of the range is not there.
        """
        return self._chain.blocks(partition, start, end)

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes the records of a range take: runs, each with its end and its bytes.

        What is beyond so many bytes as are ``enough`` is not looked at.

        Raises:
            DepotError: When an offset of the range is not there.
        """
        return self._chain.sizes(partition, start, end, enough)

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset per depot partition at which a topology begins."""
        return resolve_start(self._chain, start_from, int(time.time() * 1000))

    def _refresh(self) -> tuple[int, ...]:
        with self._lock, self._chain.lock:
            now = time.monotonic()
            if now - self._refreshed < look_seconds(self._chain.store):
                return self._ends
            self._chain.refresh()
            self._refreshed = now
            ends, tail = self._chain.end_offsets(), self._chain.tail
            if ends != self._ends and tail is not None:
                sync_segment(self._chain.folder, tail.header.number)
            self._ends = ends
            return ends
