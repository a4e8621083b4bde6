"""Reading a depot from outside: from an offset on, batch by batch, and live if wished.

A *tail* shows acknowledged records only, each once, in order per depot partition. It keeps no
queue: it knows the next offset of each depot partition and reads the segments when it is asked, so
a slow reader costs nothing but its own time. What it has read is a token, with which another
tail goes on in any process and life.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from atoll.depot.followed import Followed
from atoll.depot.receipt import Awaited
from atoll.depot.tail_start import Start, first_offsets
from atoll.errors import DamageError, DepotError, OvertakenError, UsageError
from atoll.objects import build
from atoll.python_values import python_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.depot.start import StartFrom

__all__ = ["BATCH_RECORDS", "Tail", "TailBatch", "Tailed"]

BATCH_RECORDS = 10_000
"""How many records a batch has at most, unless told otherwise."""
_BATCH_BYTES = 8 * 1024 * 1024
"""About how many bytes; one block at least, which is no larger than that or holds one record."""
_ASYNC_SECONDS = 0.5
"""So long a thread waits for a task at most; one that was cancelled leaves it behind so long."""


class Tailed(Protocol):
    """A depot as a tail reads it."""

    @property
    def about(self) -> Tailing:
        """What it is."""

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset after the last acknowledged record, as of now."""

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset by depot partition at which to begin."""

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes the records of a range take: runs, each with its end and its bytes."""

    def read(self, partition: int, start: int, end: int) -> pa.Table:
        """The records of a range of offsets."""

    def wait_appended(
        self, known: Sequence[int], over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        """Return when the end offsets are others, when it is over, or when the time is."""

    def wake(self) -> None:
        """Let everybody who waits look whether it is over."""


@dataclass(frozen=True)
class Tailing:
    """What a tail says of its depot.

    Attributes:
        module: The depot's module.
        name: The depot.
        row_class: The class that it was declared with, where it is known.
    """

    module: str
    name: str
    row_class: type | None = None


@dataclass(frozen=True)
class TailBatch:
    """Records that follow each other in one depot partition.

    Attributes:
        partition: The depot partition.
        start: The first record's offset.
        end: The offset after the last record.
        table: The records.
        position: Up to where all is told that this tail reads: another one goes on from there,
            and ``app.wait`` waits until that is processed.
    """

    partition: int
    start: int
    end: int
    table: pa.Table
    position: str
    row_class: type | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """How many records it has."""
        return self.end - self.start

    def rows(self) -> list[dict[str, Any]]:
        """The records as dicts of Python values."""
        return python_rows(self.table)

    def objects(self, kind: type | None = None) -> list[Any]:
        """The records as objects of a class.

        Args:
            kind: The class; that which the depot was declared with when None.

        Raises:
            UsageError: When the depot was declared without a class and none is given.
            StateError: When the records do not fit the class.
        """
        wanted = self.row_class if kind is None else kind
        if wanted is None:
            raise UsageError(
                "it is not known here which class the records are of",
                hint="name one: batch.objects(Order); or take batch.rows() or batch.table",
            )
        return [build(wanted, row) for row in self.rows()]


class Tail(Followed[TailBatch]):
    """The records of a depot from somewhere on: an iterator of batches, and an asynchronous one.

    Any thread may close it; else it is for one thread, or one task, at a time. Made by
    ``app.depot(...).tail(...)``.

    Args:
        depot: The depot.
        start: Where to begin.
        partition: The one depot partition to read; all of them when None.
        follow: Whether to wait for new records at the end; else it ends with what was there when
            it began.
        batch_records: How many records a batch has at most.

    Raises:
        UsageError: When the start or the depot partition cannot be.
        ReceiptError: When the start is a token of another depot, or none.
        DepotError: When an offset lies behind all that the depot holds.
    """

    def __init__(
        self,
        depot: Tailed,
        start: Start = None,
        *,
        partition: int | None = None,
        follow: bool = True,
        batch_records: int = BATCH_RECORDS,
    ) -> None:
        if batch_records < 1:
            raise UsageError(
                f"a batch cannot have {batch_records} records", hint="choose 1 or more"
            )
        super().__init__()
        self._depot = depot
        self._about = depot.about
        self._most = batch_records
        self._at = first_offsets(depot, start, partition)
        self._until = None if follow else depot.end_offsets()
        self._turn = sorted(self._at)
        self._ready: TailBatch | None = None

    def __repr__(self) -> str:
        """Of which depot, and from where it goes on: ``<tail of depot 'orders' at {0: 5}>``."""
        return f"<tail of depot {self._about.name!r} at {self.offsets}>"

    def next(self, timeout_seconds: float | None = None) -> TailBatch | None:
        """The next batch; None when none came in time, or the tail has ended.

        Args:
            timeout_seconds: How long to wait; 0 to take only what is there, None for ever.

        Raises:
            OvertakenError: When retention deleted records before they were read.
            DamageError: When records cannot be read.
            FencedError: When another process took the module over.
        """
        with self._one_at_a_time:
            self._prepare(timeout_seconds)
            return self._taken()

    @property
    def offsets(self) -> dict[int, int]:
        """By depot partition, the offset of the next record."""
        return dict(self._at)

    @property
    def position(self) -> str:
        """Up to where all is told: ``app.depot(...).tail(tail.position)`` goes on there."""
        return Awaited(self._about.module, self._about.name, dict(sorted(self._at.items()))).token

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> TailBatch:
        """The next batch; a task that is cancelled while it waits loses none."""
        while not self.closed:
            await asyncio.to_thread(self._prepare_alone)
            batch = self._taken()
            if batch is not None:
                return batch
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # Inside ---------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._depot.wake()

    def _prepare_alone(self) -> None:
        with self._one_at_a_time:
            self._prepare(_ASYNC_SECONDS)

    def _prepare(self, timeout_seconds: float | None) -> None:
        """Have the next batch ready, if one comes in time; it counts when it is taken."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self._ready is None and not self._closed.is_set():
            ends = self._depot.end_offsets() if self._until is None else self._until
            self._ready = self._read(ends)
            if self._ready is not None:
                return
            if self._until is not None:
                self._closed.set()
                return
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            self._depot.wait_appended(ends, self._closed.is_set, left)
        if self._closed.is_set() and self._error is not None:
            raise self._error

    def _taken(self) -> TailBatch | None:
        batch, self._ready = self._ready, None
        if batch is None:
            return None
        self._at[batch.partition] = batch.end
        self._turn.remove(batch.partition)
        self._turn.append(batch.partition)
        return batch

    def _read(self, ends: Sequence[int]) -> TailBatch | None:
        """What comes next, of the depot partition that was read least lately."""
        self._check_kept()
        for partition in self._turn:
            start = self._at[partition]
            if start < ends[partition]:
                end = self._end_of_batch(partition, start, ends[partition])
                table = self._records(partition, start, end)
                reached = dict(sorted({**self._at, partition: end}.items()))
                position = Awaited(self._about.module, self._about.name, reached).token
                row_class = self._about.row_class
                return TailBatch(partition, start, end, table, position, row_class)
        return None

    def _end_of_batch(self, partition: int, start: int, end: int) -> int:
        most = min(end, start + self._most)
        with self._overtaken_told():
            runs = self._depot.sizes(partition, start, most, _BATCH_BYTES)
        reached = size = 0
        for offset, taken in runs:
            size += taken
            if reached and size > _BATCH_BYTES:
                break
            reached = offset
        return reached

    def _records(self, partition: int, start: int, end: int) -> pa.Table:
        with self._overtaken_told():
            return self._depot.read(partition, start, end)

    @contextmanager
    def _overtaken_told(self) -> Iterator[None]:
        """Say of what cannot be read any more that retention took it away, if it did."""
        try:
            yield
        except (DamageError, DepotError):
            self._check_kept()
            raise

    def _check_kept(self) -> None:
        starts = self._depot.start_offsets()
        for partition, offset in self._at.items():
            if offset < starts[partition]:
                raise OvertakenError(
                    f"retention deleted {starts[partition] - offset} records of depot "
                    f"{self._about.name!r} before they were read",
                    hint="go on with the oldest that are there, atoll.start.beginning(), and let "
                    "the depot keep more: retain_records=, retain_seconds=",
                    depot=self._about.name,
                    partition=partition,
                    offset=offset,
                    oldest=starts[partition],
                )
