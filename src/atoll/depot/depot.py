"""A depot open for writing: append, read, trim.

One process writes a depot at a time; opening it fences whoever did before. An append that has
returned is on disk, present once, and in order within its depot partition.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked, Refusals
from atoll.ddl import columns_in_words, to_ddl
from atoll.depot.append.call import AppendCall
from atoll.depot.append.checking import checked_parts, refused_error
from atoll.depot.append.claim import WriterClaim
from atoll.depot.append.group_writer import GroupWriter
from atoll.depot.append.stream import StreamAppend
from atoll.depot.files import FileSource
from atoll.depot.migration import DepotMigration
from atoll.depot.partitioner import Placer
from atoll.depot.producers.fingerprint import RecordsCrc
from atoll.depot.producers.resent import Resent, TwoCodecs, stored_before
from atoll.depot.producers.table import Producer, ProducerMark
from atoll.depot.reader import read_range, resolve_start
from atoll.depot.receipt import Receipt
from atoll.depot.segments.blocks import BlockRef
from atoll.depot.segments.chain import SegmentChain
from atoll.depot.segments.index import SEGMENTS_FOLDER, segment_number
from atoll.depot.segments.presence import lost_segments
from atoll.depot.segments.retention import removable
from atoll.depot.segments.segment_file import clean_staging, sync_segment
from atoll.depot.spec import DepotSpec
from atoll.depot.start import StartFrom
from atoll.depot.tail import BATCH_RECORDS, Tail, Tailing
from atoll.depot.tail_start import Start
from atoll.errors import AtollError, ProducerError, RecordsRefusedError, UsageError
from atoll.logs import get_logger
from atoll.markup import table
from atoll.storage.glances import delete_each
from atoll.storage.objects import ObjectExistsError
from atoll.storage.places import Place

__all__ = ["Depot", "OnInvalid"]

_log = get_logger(__name__)

OnInvalid = Literal["none", "keep"]
"""What is kept of a call in which a record is refused: nothing, or the good ones."""


def _no_fence() -> None:
    """Nobody else coordinates: the depot's own claim is the only fence."""


class Depot:
    """An embedded depot. Safe to use from many threads.

    Args:
        folder: Where it lies; made when it does not exist.
        spec: Its declaration; schema and partition count must be those it was made with.
        epoch: The coordinator's epoch.
        fence: Called before each acknowledgement; raises FencedError when this process must not
            write any more.
        clock: Seconds since the epoch; only for append times.

    Raises:
        FencedError: When a later epoch has opened it.
        DamageError: When something that was stored is missing or cannot be read.
        DepotError: When it was made with another schema or partition count.
        StorageError: When the disk refuses.
    """

    def __init__(
        self,
        folder: Place | str,
        spec: DepotSpec,
        epoch: int = 0,
        fence: Callable[[], None] = _no_fence,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Fence earlier writers, find the valid end, begin a new segment."""
        self.folder = Path(folder) if isinstance(folder, str) else folder
        self.spec = spec
        self.codec = RecordCodec(spec.schema)
        self._clock = clock
        self._ddl = to_ddl(spec.schema)
        self._placer = Placer(spec.partitioner, spec.schema, spec.partitions, spec.name)
        self._listeners: list[Callable[[], None]] = []
        self._appended = threading.Condition()
        self._tails: weakref.WeakSet[Tail] = weakref.WeakSet()
        self._chain = SegmentChain(self.folder, spec.partitions, self._ddl, spec.migrations)
        self._chain.producer_seconds_max = spec.producer_seconds_max
        self._claim = WriterClaim(self.folder, epoch)
        self._recover()
        self._writer = GroupWriter(
            self._chain,
            self.codec,
            self._claim,
            fence=fence,
            clock=clock,
            segment_bytes_max=spec.segment_bytes_max,
            acknowledged=self._tell,
        )
        self._chain.seal()

    def __repr__(self) -> str:
        """Its name and size: ``<depot 'pairs': 4 partitions>``."""
        return f"<depot {self.spec.name!r}: {self.spec.partitions} partitions>"

    def _repr_html_(self) -> str:
        """What it is and how much it holds, for a notebook; no records."""
        starts, ends = self.start_offsets(), self.end_offsets()
        spans = zip(starts, ends, strict=True)
        rows = [[part, start, end, end - start] for part, (start, end) in enumerate(spans)]
        caption = f"depot {self.spec.name}: {columns_in_words(self.spec.schema)}"
        return table(["partition", "first offset", "end", "records"], rows, caption)

    def __enter__(self) -> Self:
        """The depot itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def append(
        self, data: Any, on_invalid: OnInvalid = "none", producer: Producer | None = None
    ) -> Receipt:
        """Append records; when this returns they are durable.

        Args:
            data: A record (a mapping, or an object of a class with fields), an iterable of them,
                a ``pa.Table`` or ``RecordBatch``, or a pandas DataFrame.
            on_invalid: ``"none"``: store nothing of the call when a record does not fit the
                schema. ``"keep"``: store the others.
            producer: Who appends and the append's number: sent again, it is stored once.

        Raises:
            RecordsRefusedError: With ``"none"``, when a record does not fit.
            ProducerError: When the number does not fit the producer's earlier ones.
            StorageError: When the disk refuses; nothing of the call is stored.
            StoppedError: When the depot is closed, as while another version of its module starts.
            FencedError: When another writer has taken over.
        """
        parts = checked_parts(data, self.codec_for(producer), self.spec.name)
        return self.append_stream(parts, on_invalid, producer=producer)

    def append_stream(
        self,
        batches: Iterable[Checked],
        on_invalid: OnInvalid = "none",
        progress: Callable[[int], None] | None = None,
        producer: Producer | None = None,
    ) -> Receipt:
        """Append what a source yields as one call, all or nothing, in bounded memory.

        Args:
            batches: Checked records; only a few of them are held at a time.
            on_invalid: As for :meth:`append`.
            progress: Called with the number of records seen so far, good and refused.
            producer: As for :meth:`append`; whether the call is one sent again is known when all
                of it has been read.
        """
        if on_invalid not in {"none", "keep"}:
            raise UsageError(f"on_invalid cannot be {on_invalid!r}", hint="use 'none' or 'keep'")
        stream = StreamAppend(
            self.folder, self._claim.number, self._placer, self.spec.partitions, self._ddl
        )
        crc = RecordsCrc() if producer is not None else None
        resent = self._resent(producer)
        call = AppendCall(stream, all_or_nothing=on_invalid == "none", crc=crc, resent=resent)
        try:
            call.take(batches, progress)
            if resent is not None and resent.is_stored(keeping=on_invalid == "keep"):
                self._writer.check_still_writer()
                return self._receipt(resent.count, resent.offsets, duplicate=True)
            if call.refused:
                raise self._refused(call.refusals, resent)
            request = stream.request()
            if crc is not None:
                request.producer, request.crc = producer, crc.value()
            if call.count or producer is not None:  # a number counts without records too
                self._writer.submit(request)
        except ProducerError as error:
            if resent is None or error.context["problem"] != "conflict":
                raise
            raise resent.explained(error) from error
        finally:
            stream.discard()
        return self._receipt(
            call.count, request.offsets, call.refusals, duplicate=request.duplicate
        )

    def append_file(
        self,
        path: Path | str,
        format: str | None = None,  # noqa: A002  # the word users know
        on_invalid: OnInvalid = "none",
        progress: Callable[[int], None] | None = None,
        producer: Producer | None = None,
    ) -> Receipt:
        """Append a file's records as one call, all or nothing, in bounded memory.

        Args:
            path: JSON lines, CSV (both also gzipped), Parquet or Arrow.
            format: ``jsonl``, ``csv``, ``parquet``, ``arrow``; by default the name's ending tells.
            on_invalid: As for :meth:`append`; refusals name the file's lines.
            progress: Called with the number of records seen so far.
            producer: As for :meth:`append_stream`.
        """
        source = FileSource(path, self.codec_for(producer), format)
        return self.append_stream(source, on_invalid, progress, producer)

    @property
    def migrations(self) -> tuple[DepotMigration, ...]:
        """What records of older schemas go through, in order."""
        return self._chain.migrations

    def last_sequence(self, producer_id: str) -> int | None:
        """The number of a producer's last append; None when it is not known."""
        with self._chain.lock:
            marks = self._chain.producers().marks(producer_id, int(self._clock() * 1000))
        return marks[-1].sequence if marks else None

    def producers(self, most: int = 100) -> list[ProducerMark]:
        """The last append of each producer that is remembered, newest first."""
        with self._chain.lock:
            return self._chain.producers().newest(most, int(self._clock() * 1000))

    def codec_for(self, producer: Producer | None) -> RecordCodec:
        """What reads the records of an append: also those sent again from before a migration.

        Then each batch comes as the schema of that time takes it, too, so that
        :meth:`append_stream` recognises records that do not fit the present one.
        """
        resent = self._resent(producer)
        if resent is None:
            return self.codec
        return TwoCodecs(self.spec.schema, resent.codec)

    def start_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the oldest offset that is still there."""
        return self._chain.start_offsets()

    def end_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the offset after the last acknowledged record."""
        return self._chain.end_offsets()

    def everything(self) -> Receipt:
        """A receipt of all that it holds now, as if one append had stored it."""
        spans = zip(self.start_offsets(), self.end_offsets(), strict=True)
        offsets = {part: span for part, span in enumerate(spans) if span[0] < span[1]}
        count = sum(end - start for start, end in offsets.values())
        return self._receipt(count, offsets)

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """Where the offsets from ``start`` up to ``end`` lie, for tasks in other processes.

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

    def read(self, partition: int, start: int, end: int) -> pa.Table:
        """The records with the offsets from ``start`` up to ``end``.

        Raises:
            DepotError: When an offset of the range is not there.
            DamageError: When their bytes are not the ones written.
            UserCodeError: When a migration fails on a record.
        """
        return read_range(self._chain, self.spec.schema, partition, start, end)

    def tail(
        self,
        start: Start = None,
        *,
        partition: int | None = None,
        follow: bool = True,
        batch_records: int = BATCH_RECORDS,
    ) -> Tail:
        """The records from somewhere on, batch by batch, live if wished.

        Args:
            start: ``atoll.start.beginning()`` (also when None), ``end()`` and so on; a position of
                another tail or a receipt, to go on behind it; or offsets by depot partition.
            partition: The one depot partition to read; all of them when None.
            follow: Whether to wait for new records at the end; else it ends with what was there
                when it began.
            batch_records: How many records a batch has at most.

        Raises:
            UsageError: When the start or the depot partition cannot be.
            ReceiptError: When the start is a token of another depot, or none.
            DepotError: When an offset lies behind all that the depot holds.
        """
        made = Tail(self, start, partition=partition, follow=follow, batch_records=batch_records)
        self._tails.add(made)
        return made

    @property
    def about(self) -> Tailing:
        """What tails say of it."""
        return Tailing(self.spec.module, self.spec.name, self.spec.row_class)

    def wait_appended(
        self, known: Sequence[int], over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        """Return when the end offsets are others, when it is over, or when the time is."""
        with self._appended:
            self._appended.wait_for(
                lambda: over() or self.end_offsets() != tuple(known), timeout_seconds
            )

    def wake(self) -> None:
        """Let everybody who waits for records look whether it is over."""
        with self._appended:
            self._appended.notify_all()

    def end_tails(self, reason: AtollError | None = None) -> None:
        """End all tails of this process: no more records come here."""
        for each in list(self._tails):
            each.close(reason)

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset per depot partition at which a topology begins."""
        return resolve_start(self._chain, start_from, int(self._clock() * 1000))

    def on_append(self, callback: Callable[[], None]) -> None:
        """Call back after each acknowledged group of appends, in the writer's thread.

        The callback must be quick and must not append.
        """
        self._listeners.append(callback)

    def trim(self, protected: Sequence[int] | None = None) -> int:
        """Delete the oldest segments as far as the retention lets them go.

        Args:
            protected: Per depot partition, the lowest offset that somebody still needs.

        Returns:
            How many segments went.
        """
        with self._chain.lock:
            count = removable(
                self._chain.headers,
                self._chain.end_offsets(),
                self.spec.retention,
                protected,
                int(self._clock() * 1000),
            )
            if count == 0:
                return 0
            first = self._chain.headers[count].number
            # it may exist: decided before, by a process that died before it deleted
            with contextlib.suppress(ObjectExistsError):
                self._chain.retained.create(first, b"")
            self._chain.drop_first(count)
        self._delete_below(first)
        return count

    def lost_segments(self) -> list[str]:
        """What is wrong with the segments' files by presence and size: a line for each file."""
        return lost_segments(self._chain)

    def close(self) -> None:
        """Let appends in progress end, then close. May be called again."""
        self._writer.close()
        self.end_tails()

    def _recover(self) -> None:
        """Find the valid end that earlier writers left, and make it durable."""
        clean_staging(self.folder, self._claim.number)
        self._chain.refresh()
        tail = self._chain.tail
        if tail is None:
            return
        if self._chain.torn is not None:
            _log.warning(
                "the torn end of a depot segment is dropped",
                file=self._chain.where(tail.header.number),
                position=tail.valid_length,
                reason=self._chain.torn,
            )
        sync_segment(self.folder, tail.header.number)

    def _delete_below(self, first: int) -> None:
        self._chain.retained.delete_below(first)
        segments = self._chain.store.list(SEGMENTS_FOLDER)
        numbers = {name: segment_number(name) for name in segments}
        gone = (name for name, number in numbers.items() if number is not None and number < first)
        delete_each(self._chain.store, gone)

    def _resent(self, producer: Producer | None) -> Resent | None:
        """What is stored under a producer's number since before a migration, if anything is."""
        if producer is None or not self._chain.migrations:
            return None
        with self._chain.lock:
            marks = self._chain.producers().marks(producer.id, int(self._clock() * 1000))
        return stored_before(marks, producer, self._chain.migrations, self._ddl, self.read)

    def _refused(self, refusals: Refusals, resent: Resent | None) -> RecordsRefusedError:
        if resent is None:
            return refused_error(refusals, self.spec.name)
        return refused_error(refusals, self.spec.name, resent.hint)

    def _receipt(
        self,
        count: int,
        offsets: dict[int, tuple[int, int]],
        refusals: Refusals | None = None,
        *,
        duplicate: bool = False,
    ) -> Receipt:
        """What an append answers; where offsets are forgotten all lies before the present end."""
        kept, refused = ([], 0) if refusals is None else (refusals.kept, refusals.count)
        forgotten = duplicate and count > 0 and not offsets
        behind = dict(enumerate(self.end_offsets())) if forgotten else {}
        name, module = self.spec.name, self.spec.module
        return Receipt(name, count, offsets, kept, refused, duplicate, module, behind)

    def _tell(self) -> None:
        self.wake()
        for listener in self._listeners:
            listener()
