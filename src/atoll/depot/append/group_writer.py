"""Group commit: many appends, one write and one fsync.

Appenders hand their records to one writer thread and wait. While it is in an fsync, others queue
up; it then takes all of them at once. Small appends of a group are merged into one block per
depot partition, so that many single records cost readers no more than a few large appends.

An append is acknowledged after: the write, the fsync, the check that no other writer has claimed
the depot, and the coordinator's own fence. When any of them fails, nothing of the group was or
will be acknowledged, and the segment is never written again: the next one records how much of it
counts.

Whether a producer's append is new is decided here too, one group after the other: against what
is stored, and against what stands before it in its group.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.depot.append.claim import WriterClaim
from atoll.depot.append.requests import AppendRequest, merged, runs_of
from atoll.depot.append.staging import StagedSegment
from atoll.depot.producers.table import Admission, Duplicate, ProducerMark
from atoll.depot.segments.acknowledged import AcknowledgedNote
from atoll.depot.segments.blocks import EncodedBlock
from atoll.depot.segments.chain import SegmentChain
from atoll.depot.segments.format import FrameHeader, SegmentHeader, encode_frame
from atoll.depot.segments.index import SegmentIndex, segment_file_name
from atoll.depot.segments.scan import header_of, scan
from atoll.depot.segments.segment_file import SegmentFile, sync_segment
from atoll.errors import (
    AtollError,
    DepotError,
    FencedError,
    ProducerError,
    StoppedError,
    StorageError,
)
from atoll.logs import get_logger

_GROUP_BYTES_MAX = 16 * 1024 * 1024
_GROUP_REQUESTS_MAX = 4096
_OPENINGS_MAX = 100
_log = get_logger(__name__)


class _NumberTakenError(FencedError):
    """The next segment's number is taken by a writer that made its claim earlier."""


class _ArrivedError(Exception):
    """A segment whose answer was lost is there, and has been taken in: look at all again."""


class GroupWriter:
    """The only one to write a depot's segments, from one thread of its own.

    Args:
        chain: The depot's segments, refreshed; it grows as appends are acknowledged.
        codec: Makes batches of records.
        claim: This writer's claim.
        fence: Called after each fsync, before acknowledging; raises when this process is fenced.
        clock: Seconds since the epoch.
        segment_bytes_max: A segment of this size is followed by a new one.
        acknowledged: Called in the writer's thread after each group; must not append.
    """

    def __init__(  # noqa: PLR0913  # one collaborator each
        self,
        chain: SegmentChain,
        codec: RecordCodec,
        claim: WriterClaim,
        *,
        fence: Callable[[], None],
        clock: Callable[[], float],
        segment_bytes_max: int,
        acknowledged: Callable[[], None],
    ) -> None:
        """Publish a new segment, so that no earlier writer's bytes count from here on."""
        self._chain = chain
        self._codec = codec
        self._claim = claim
        self._fence = fence
        self._clock = clock
        self._segment_bytes_max = segment_bytes_max
        self._acknowledged = acknowledged
        self._file: SegmentFile | None = None
        self._fenced: FencedError | None = None
        self._queue: SimpleQueue[AppendRequest | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        folder = chain.folder
        self._in_bucket = not isinstance(folder, Path)
        self._note = AcknowledgedNote(folder, claim.number) if isinstance(folder, Path) else None
        try:
            self._open_first_segment()
            if self._note is not None:
                self._note.supersede()
        except BaseException:
            if self._note is not None:
                self._note.close()
            raise

    def submit(self, request: AppendRequest) -> None:
        """Append and wait for the acknowledgement: then the request has its offsets.

        Raises:
            StorageError: When the disk refused; nothing of the request is stored.
            FencedError: When another writer has taken over; nothing will be acknowledged.
            ProducerError: When its number does not fit its producer's earlier ones.
            StoppedError: When the depot is closed; nothing of the request is stored.
        """
        with self._lock:
            if self._closed:
                raise StoppedError(
                    f"depot {self._chain.name!r} is closed: its module has ended, or another "
                    "version takes its place; nothing is stored",
                    hint="append again: over HTTP as before, in Python to the depot of the app "
                    "that runs now",
                    depot=self._chain.name,
                )
            if self._thread is None:
                name = f"atoll-depot-{self._chain.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            if request.staged is not None:
                request.staged.handed_over = True
            self._queue.put(request)
        request.done.acquire()
        if request.error is not None:
            # a copy each: one exception object must not be raised in several threads
            raise copy.copy(request.error) from request.error

    def check_still_writer(self) -> None:
        """Nothing, while this process may acknowledge.

        In a bucket a segment that was created is the proof: its number was this writer's to take.

        Raises:
            FencedError: When another writer or coordinator has taken over.
        """
        if self._in_bucket:
            return
        self._claim.check()
        self._fence()

    def close(self) -> None:
        """Let queued appends end, then close the segment. May be called again."""
        with self._lock:
            self._closed = True
            if self._thread is not None:
                self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        if self._file is not None:
            self._file.close()
        if self._note is not None:
            self._note.close()

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._next_group()
            for run in runs_of(group):
                try:
                    self._commit(run)
                except BaseException as error:  # noqa: BLE001  # whatever it is, appenders must not wait for ever
                    self._fail(run, error)
                    self._cut_off()
                for request in run:
                    request.done.release()
            if group:
                self._tell()

    def _next_group(self) -> tuple[list[AppendRequest], bool]:
        """Wait for a request, then take all that are queued; False when it is time to end."""
        group: list[AppendRequest] = []
        size = 0
        try:
            request = self._queue.get()
            while request is not None:
                group.append(request)
                size += request.bytes
                if size >= _GROUP_BYTES_MAX or len(group) >= _GROUP_REQUESTS_MAX:
                    return group, True
                request = self._queue.get_nowait()
        except Empty:
            return group, True
        return group, False

    def _commit(self, run: list[AppendRequest]) -> None:
        while True:
            try:
                self._commit_once(run)
                return
            except _ArrivedError as error:
                if run[0].staged is not None:
                    raise StorageError(
                        "an append whose answer was lost has come before this one",
                        hint="nothing of this one is stored: append it again",
                        depot=self._chain.name,
                    ) from error

    def _commit_once(self, run: list[AppendRequest]) -> None:
        if self._fenced is not None:
            raise self._fenced
        fresh = self._admit(run)
        if not fresh:
            self.check_still_writer()
        elif fresh[0].staged is not None:
            self._publish(fresh[0].staged, fresh[0])
        else:
            self._write(fresh)

    def _admit(self, run: list[AppendRequest]) -> list[AppendRequest]:
        """Give each request its offsets; returns those that are to be stored, in order."""
        admission = Admission(self._chain.producers(), self._now_ms())
        ends = list(self._chain.end_offsets())
        fresh = []
        for request in run:
            if request.producer is None or self._is_new(request, admission):
                _place(request, ends)
                fresh.append(request)
                if request.producer is not None:
                    request.mark = admission.add(request.producer, request.crc, request.offsets)
            elif request.staged is not None:
                request.staged.file.close()
        return fresh

    def _is_new(self, request: AppendRequest, admission: Admission) -> bool:
        """Whether a producer's append is to be stored; else the request has its answer."""
        if request.producer is None:
            return True
        request.settled = not admission.pending(request.producer.id)
        try:
            decision = admission.admit(request.producer, request.crc)
        except ProducerError as error:
            request.error = error
            return False
        if isinstance(decision, Duplicate):
            request.duplicate = True
            request.offsets = decision.offsets
            return False
        request.settled = False
        return True

    def _write(self, fresh: list[AppendRequest]) -> None:
        groups = merged(fresh, self._codec)
        if self._in_bucket:
            self._create_segment(groups)
            return
        file = self._file_with_room()
        frames: list[tuple[FrameHeader, int, int]] = []
        buffers: list[bytes | pa.Buffer] = []
        time_ms = self._now_ms()
        for blocks, marks in groups:
            header, pieces, header_bytes = encode_frame(blocks, time_ms, file.durable_length, marks)
            frames.append((header, header_bytes, sum(block.length for block in header.blocks)))
            buffers += pieces
        file.write(buffers)
        file.sync()
        self.check_still_writer()
        with self._chain.lock:
            tail = self._tail()
            for frame, header_bytes, payload_bytes in frames:
                tail.add(frame, header_bytes, payload_bytes)
        self._tell_readers(tail.header.number, tail.valid_length)

    def _create_segment(self, groups: list[tuple[list[EncodedBlock], list[ProducerMark]]]) -> None:
        """Make a segment of its own, one object, of a group of appends."""
        file = self._new_file()
        try:
            frames = self._carry_producers(file)
            time_ms = self._now_ms()
            for blocks, marks in groups:
                header, pieces, header_bytes = encode_frame(blocks, time_ms, 0, marks)
                file.write(pieces)
                size = sum(block.length for block in header.blocks)
                frames.append((header, header_bytes, size))
            self._add_segment(self._publish_file(file), frames)
        finally:
            file.close()

    def _tell_readers(self, segment: int, length: int) -> None:
        """Let readers in other processes know what is acknowledged."""
        if self._note is not None:
            self._note.write(segment, length)

    def _publish(self, staged: StagedSegment, request: AppendRequest) -> None:
        """Make a segment that an appender has written the newest one."""
        self._retire_file()
        marks = self._chain.producers().snapshot(self._now_ms())
        if request.mark is not None:
            marks.append(request.mark)
        if marks:
            staged.add_producers(marks)
        header = self._publish_file(staged.file)
        self._use(staged.file)
        self.check_still_writer()
        self._add_segment(header, staged.frames)

    def _add_segment(
        self, header: SegmentHeader, frames: list[tuple[FrameHeader, int, int]]
    ) -> None:
        """Take in a new segment; what is known of producers goes on in it."""
        index = SegmentIndex(header, self._chain.producers())
        for frame, header_bytes, payload_bytes in frames:
            index.add(frame, header_bytes, payload_bytes)
        self._chain.add_segment(header, index)
        self._tell_readers(header.number, index.valid_length)

    def _file_with_room(self) -> SegmentFile:
        file = self._file
        if file is not None and file.position - file.carried_bytes >= self._segment_bytes_max:
            self._retire_file()
        return self._file if self._file is not None else self._open_segment()

    def _open_first_segment(self) -> None:
        """Look again when an earlier writer, fenced by now, was quicker with the next number."""
        for _ in range(_OPENINGS_MAX):
            try:
                self._open_segment()
                return
            except _NumberTakenError:
                self._chain.refresh()
                # what it holds beyond its header may not be durable yet, and counts from here on
                sync_segment(self._chain.folder, self._tail().header.number)
        raise DepotError("other writers keep opening the depot", depot=self._chain.name)

    def _open_segment(self) -> SegmentFile:
        self._chain.producers().expire(self._now_ms())
        file = self._new_file()
        try:
            frames = self._carry_producers(file)
            header = self._publish_file(file)
            self.check_still_writer()
        except BaseException:
            file.close()
            raise
        self._add_segment(header, frames)
        self._use(file)
        return file

    def _new_file(self) -> SegmentFile:
        partitions, ddl = self._chain.partitions or 0, self._chain.ddl or ""
        return SegmentFile(self._chain.folder, self._claim.number, partitions, ddl)

    def _use(self, file: SegmentFile) -> None:
        """Append to a file from now on; an object is never appended to."""
        if self._in_bucket:
            file.close()
        else:
            self._file = file

    def _carry_producers(self, file: SegmentFile) -> list[tuple[FrameHeader, int, int]]:
        """Begin a new segment with what is known of producers, so that earlier ones may go."""
        marks = self._chain.producers().snapshot(self._now_ms())
        if not marks:
            return []
        start = file.position
        header, buffers, header_bytes = encode_frame([], self._now_ms(), 0, marks)
        file.write(buffers)
        file.carried_bytes = file.position - start
        return [(header, header_bytes, 0)]

    def _publish_file(self, file: SegmentFile) -> SegmentHeader:
        """Make the file the next segment."""
        while True:
            header = self._next_header(file.position)
            try:
                file.publish(header)
                return header
            except StorageError:
                self._claim.check()  # a later writer deletes what others have staged
                raise
            except FileExistsError as error:
                self._claim.check()
                self._pass_over(header.number, error)

    def _pass_over(self, number: int, cause: FileExistsError) -> None:
        """Count nothing of a segment that this writer published but could not vouch for."""
        header = header_of(self._chain.store, segment_file_name(number))
        if header.writer != self._claim.number:
            raise _NumberTakenError(
                "another process has written this depot's next segment",
                hint="append there; this process must not write any more",
                depot=self._chain.name,
                file=self._chain.where(number),
            ) from cause
        if self._in_bucket:
            self._take_in(header)
            raise _ArrivedError from cause
        self._add_segment(header, [])

    def _take_in(self, header: SegmentHeader) -> None:
        """Count what this writer created without getting to know it: others may have seen it."""
        index = SegmentIndex(header, self._chain.producers())
        scan(self._chain.path(header.number), index, None)
        self._chain.add_segment(header, index)
        _log.warning(
            "an append that was told to have failed is stored",
            depot=self._chain.name,
            segment=header.number,
        )

    def _next_header(self, published_length: int) -> SegmentHeader:
        tail = self._chain.tail
        return SegmentHeader(
            number=1 if tail is None else tail.header.number + 1,
            writer=self._claim.number,
            epoch=self._claim.epoch,
            bases=list(self._chain.end_offsets()),
            previous_length=0 if tail is None else tail.valid_length,
            published_length=published_length,
            time_ms=self._now_ms(),
            ddl=self._chain.ddl or "",
        )

    def _now_ms(self) -> int:
        """The time, never lower than the last one written: a clock may be set back."""
        tail = self._chain.tail
        now = int(self._clock() * 1000)
        return now if tail is None else max(now, tail.time_ms)

    def _tail(self) -> SegmentIndex:
        if self._chain.tail is None:
            raise DepotError("the depot has no segment", depot=self._chain.name)
        return self._chain.tail

    def _retire_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _fail(self, run: list[AppendRequest], error: BaseException) -> None:
        self._retire_file()
        if isinstance(error, FencedError):
            self._fenced = error
        elif not isinstance(error, AtollError):
            cause = error
            error = StorageError(
                f"the append failed: {type(cause).__name__}: {cause}", depot=self._chain.name
            )
            error.__cause__ = cause
        _log.error("depot append failed", depot=self._chain.name, error=str(error))
        for request in run:
            if request.settled and self._fenced is None:
                continue
            request.error = error
            if request.staged is not None:
                request.staged.file.close()

    def _cut_off(self) -> None:
        """After a failure, begin a new segment at once: it records that what failed is not there.

        When that fails too, the next append tries again. In a bucket what failed may be there all
        the same, and counts then.
        """
        if self._fenced is None:
            try:
                if not self._in_bucket:
                    self._file_with_room()
                elif self._chain.store.exists(segment_file_name(self._tail().header.number + 1)):
                    self._open_segment()
            except _ArrivedError:
                return
            except FencedError as error:
                self._fenced = error
            except Exception as error:  # noqa: BLE001  # the appenders have been told already
                _log.warning("no new depot segment", depot=self._chain.name, error=str(error))

    def _tell(self) -> None:
        try:
            self._acknowledged()
        except Exception:  # noqa: BLE001  # a listener's fault must not end the writer thread
            _log.exception("a listener to depot appends failed", depot=self._chain.name)


def _place(request: AppendRequest, ends: list[int]) -> None:
    """Give the request the next offsets: frames are written in the order of the requests."""
    request.offsets = {}
    for partition, rows in request.counts():
        start = request.offsets.get(partition, (ends[partition], 0))[0]
        ends[partition] += rows
        request.offsets[partition] = (start, ends[partition])
