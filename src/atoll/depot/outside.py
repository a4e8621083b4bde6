"""A depot as other processes tail it: from its folder alone, whoever writes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from atoll.ddl import to_ddl
from atoll.depot.migration import DepotMigration
from atoll.depot.reader import read_range, resolve_start
from atoll.depot.segments.chain import SegmentChain
from atoll.depot.start import StartFrom
from atoll.depot.tail import BATCH_RECORDS, Tail, Tailing
from atoll.depot.tail_start import Start
from atoll.errors import DepotError
from atoll.storage.glances import look_seconds
from atoll.storage.places import Place

_LOOK_SECONDS = 0.05
"""Between two looks for what another process has appended."""


class OutsideDepot:
    """Reads what is acknowledged of a depot. Safe to share between threads.

    Made by ``atoll.connect(root, module).depot(name)``. It needs no process that runs the module:
    what was acknowledged stays.

    Args:
        folder: The depot's folder.
        schema: The records' schema.
        partitions: How many depot partitions it has.
        migrations: What its records of older schemas go through.
        about: What it is.

    Raises:
        DamageError: When something that was stored is missing or cannot be read.
    """

    def __init__(  # each says one thing of the depot
        self,
        folder: Place,
        schema: pa.Schema,
        partitions: int,
        migrations: tuple[DepotMigration, ...],
        about: Tailing,
    ) -> None:
        self.schema = schema
        self.about = about
        self._chain = SegmentChain(folder, partitions, to_ddl(schema), migrations)
        self._woken = threading.Condition()
        self._lock = threading.Lock()
        self._ends: tuple[int, ...] = (0,) * partitions
        self._chain.refresh()

    def __repr__(self) -> str:
        """Its name and whose it is: ``<depot 'orders' of module 'shop', from outside>``."""
        return f"<depot {self.about.name!r} of module {self.about.module!r}, from outside>"

    def tail(
        self,
        start: Start = None,
        *,
        partition: int | None = None,
        follow: bool = True,
        batch_records: int = BATCH_RECORDS,
    ) -> Tail:
        """The records from somewhere on, batch by batch, as ``app.depot(...).tail(...)`` does."""
        return Tail(self, start, partition=partition, follow=follow, batch_records=batch_records)

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""
        return self._chain.start_offsets()

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset after the last acknowledged record, as of now.

        Raises:
            DepotError: When the depot got another schema meanwhile.
            DamageError: When something that was stored is missing or cannot be read.
        """
        with self._lock, self._chain.lock:
            try:
                self._chain.refresh()
            except DepotError as error:
                raise DepotError(
                    f"depot {self.about.name!r} has got another schema since this reader began",
                    hint="connect again, and go on with tail(position)",
                    depot=self.about.name,
                ) from error
            found = self._chain.acknowledged_offsets()
            self._ends = tuple(map(max, self._ends, found))
            return self._ends

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset by depot partition at which to begin."""
        return resolve_start(self._chain, start_from, int(time.time() * 1000))

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes the records of a range take: runs, each with its end and its bytes."""
        return self._chain.sizes(partition, start, end, enough)

    def read(self, partition: int, start: int, end: int) -> pa.Table:
        """The records with the offsets from ``start`` up to ``end``.

        Raises:
            DepotError: When an offset of the range is not there.
            DamageError: When their bytes are not the ones written.
        """
        return read_range(self._chain, self.schema, partition, start, end)

    def wait_appended(
        self, known: Sequence[int], over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        """Return when the end offsets are others, when it is over, or when the time is."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not over() and self.end_offsets() == tuple(known):
            left = look_seconds(self._chain.store, _LOOK_SECONDS)
            left = left if until is None else min(left, until - time.monotonic())
            if left <= 0:
                return
            with self._woken:
                self._woken.wait_for(over, left)

    def wake(self) -> None:
        """Let everybody who waits look whether it is over."""
        with self._woken:
            self._woken.notify_all()
