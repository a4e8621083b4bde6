"""The chain of a depot's segments: which there are, where each offset lies, where all ends.

Each segment's header records how many bytes of the one before it count, so all readers agree
on the chain's content whatever a fenced writer still scribbles behind it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from atoll.depot.evolution import extends
from atoll.depot.migration import DepotMigration, generation_of_segment, schema_at
from atoll.depot.producers.table import PRODUCER_SECONDS_MAX, ProducerTable
from atoll.depot.segments.acknowledged import read_note
from atoll.depot.segments.blocks import BlockRef
from atoll.depot.segments.format import SegmentHeader
from atoll.depot.segments.index import (
    SEGMENTS_FOLDER,
    SegmentIndex,
    segment_file_name,
    segment_number,
)
from atoll.depot.segments.runs import Runs
from atoll.depot.segments.scan import header_of, scan
from atoll.errors import DamageError, DepotError, NotFoundError
from atoll.storage.numbered import NumberedObjects
from atoll.storage.places import Place
from atoll.storage.roots import open_store

_INDEXES_KEPT_MAX = 64
_LISTINGS_MAX = 20
_FEW = 3
_AT_ONCE = 16
_FETCHED_AHEAD = 64


class SegmentChain:
    """What is known of the segments in one depot folder. Safe to share between threads.

    Args:
        folder: The depot's folder.
        partitions: How many depot partitions it must have; None to take what is there.
        ddl: The schema of the records as they are read; None to take what is there.
        migrations: What records of older schemas go through; only with ``ddl``.

    Attributes:
        migrations: Those, in order.
        headers: Of all segments, oldest first.
        tail: The newest segment's index; None before there is one.
        torn: What was unreadable at the newest segment's end at the last refresh, or None.
        producer_seconds_max: How long a silent producer is remembered; set before refreshing.
    """

    def __init__(
        self,
        folder: Place,
        partitions: int | None,
        ddl: str | None,
        migrations: tuple[DepotMigration, ...] = (),
    ) -> None:
        """Know nothing yet: call :meth:`refresh`."""
        self.folder = folder
        self.migrations = migrations
        self._fitting = 0
        self.partitions = partitions
        self.ddl = ddl
        self._ddl_given = ddl is not None
        self.lock = threading.RLock()
        self.headers: list[SegmentHeader] = []
        self.tail: SegmentIndex | None = None
        self.torn: str | None = None
        self.producer_seconds_max = PRODUCER_SECONDS_MAX
        self.store = open_store(folder)
        self.retained = NumberedObjects(self.store, "retained")
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()

    def refresh(self) -> None:
        """Look at the folder again: new segments, new frames, segments that were trimmed.

        Raises:
            DamageError: When something that was stored is missing or cannot be read.
        """
        with self.lock:
            for _ in range(_LISTINGS_MAX):
                try:
                    self._load(self._numbers())
                    return
                except (FileNotFoundError, NotFoundError):
                    continue  # trimmed between listing and reading
        raise DepotError("the depot's segments change faster than they can be read")

    def path(self, number: int) -> Path:
        """A segment's file on this host, fetched where that is not where it lies."""
        return self.store.file(segment_file_name(number))

    def where(self, number: int) -> str:
        """Where a segment lies, for people."""
        return str(self.folder / segment_file_name(number))

    def start_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the oldest offset that is still there."""
        with self.lock:
            return tuple(self.headers[0].bases) if self.headers else self._zeros()

    def end_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the offset after the last record."""
        with self.lock:
            return tuple(self.tail.ends) if self.tail is not None else self._zeros()

    def acknowledged_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the offset after the last record that its writer acknowledged.

        For readers in other processes; as of the last refresh, and a lower bound: it may be said
        again with fewer records for a moment. What a segment before the newest one holds is
        acknowledged, or counts since the depot was opened again.
        """
        with self.lock:
            tail = self.tail
            if tail is None:
                return self._zeros()
            if not isinstance(self.folder, Path):
                return tuple(tail.ends)  # what is in a bucket is never taken back
            note = read_note(self.folder, tail.header.writer)
            if note is None or note[0] != tail.header.number:
                return tuple(tail.header.bases)
            return tail.ends_within(note[1])

    def producers(self) -> ProducerTable:
        """What is stored of producers; others than the writer's thread look under the lock."""
        found = self.tail.producers if self.tail is not None else None
        return ProducerTable(self.producer_seconds_max) if found is None else found

    def add_segment(self, header: SegmentHeader, index: SegmentIndex) -> None:
        """Take in a segment that the writer has just published."""
        with self.lock:
            if self.tail is not None:
                self.tail.producers = None  # they go on in the new one
                self._keep(self.tail)
            self.headers.append(header)
            self.tail = index

    def drop_first(self, count: int) -> list[int]:
        """Forget the oldest segments; returns their numbers."""
        with self.lock:
            dropped = [header.number for header in self.headers[:count]]
            del self.headers[:count]
            for number in dropped:
                self._indexes.pop(number, None)
            return dropped

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """The blocks that hold the offsets from ``start`` up to ``end``.

        Raises:
            DepotError: When an offset of the range is not there (yet, or any more).
            DamageError: When a segment's frames cannot be read.
        """
        with self.lock:
            self._check_range(partition, start, end)
            if start == end:
                return []
            refs: list[BlockRef] = []
            at = bisect_right(self.headers, start, key=lambda header: header.bases[partition]) - 1
            self._fetch(at, partition, end)
            while at < len(self.headers) and self.headers[at].bases[partition] < end:
                refs += self._stored(
                    self.headers[at], self._index(at).blocks(partition, start, end)
                )
                at += 1
            return refs

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes the records of a range take, without reading them.

        Args:
            partition: The depot partition.
            start: The first offset.
            end: The offset after the last.
            enough: The bytes after which nobody wants to know more.

        Returns:
            Runs of records in order, each with the offset at which it ends and its bytes: a block,
            or several that are small beside ``enough``.

        Raises:
            DepotError: When an offset of the range is not there (yet, or any more).
            DamageError: When a segment's frames cannot be read.
        """
        runs = Runs(enough)
        with self.lock:
            self._check_range(partition, start, end)
            if start == end:
                return []
            at = bisect_right(self.headers, start, key=lambda header: header.bases[partition]) - 1
            self._fetch(at, partition, end, _FETCHED_AHEAD)
            while at < len(self.headers) and self.headers[at].bases[partition] < end:
                for offset, size in self._index(at).sizes(partition, start, end):
                    if runs.add(offset, size):
                        return runs.found()
                at += 1
        return runs.found()

    def seal(self) -> None:
        """From here on what is appended is of the present schema: migrations are for the rest."""
        with self.lock:
            ends = self.end_offsets()
            self.migrations = tuple(
                each if each.until is not None else msgspec.structs.replace(each, until=ends)
                for each in self.migrations
            )

    def _stored(self, header: SegmentHeader, refs: list[BlockRef]) -> list[BlockRef]:
        """The blocks, each with the schema that it was stored with where it is another one."""
        generation = generation_of_segment(self.migrations, header.bases)
        if header.ddl == self.ddl and generation == len(self.migrations):
            return refs
        return [
            msgspec.structs.replace(ref, stored=header.ddl, generation=generation) for ref in refs
        ]

    def offset_after(self, partition: int, time_ms: int) -> int:
        """The offset of the first record appended after the time; the end when there is none."""
        with self.lock:
            at = bisect_right(self.headers, time_ms, key=lambda header: header.time_ms)
            for segment in range(max(0, at - 1), len(self.headers)):
                index = self._index(segment)
                offset = index.offset_after(partition, time_ms)
                if offset < index.ends[partition]:
                    return offset
            return self.end_offsets()[partition]

    def _fetch(self, at: int, partition: int, end: int, most: int | None = None) -> None:
        """Let the files of a range of segments be here, many fetched at once."""
        if isinstance(self.folder, Path):
            return
        until = bisect_left(self.headers, end, at, key=lambda header: header.bases[partition])
        wanted = self.headers[at:until] if most is None else self.headers[at:until][:most]
        numbers = [h.number for h in wanted if h.number not in self._indexes]
        self.store.fetch([segment_file_name(number) for number in numbers])

    def _check_range(self, partition: int, start: int, end: int) -> None:
        first, last = self.start_offsets(), self.end_offsets()
        if not 0 <= partition < len(last):
            raise DepotError(
                f"there is no depot partition {partition}", partitions=len(last), depot=self.name
            )
        if not first[partition] <= start <= end <= last[partition]:
            raise DepotError(
                f"offsets {start} to {end} are not all there",
                hint=f"the depot partition holds {first[partition]} to {last[partition]}",
                depot=self.name,
                partition=partition,
            )

    @property
    def name(self) -> str:
        """The depot's name: that of its folder."""
        return self.folder.name

    def _zeros(self) -> tuple[int, ...]:
        return (0,) * (self.partitions or 0)

    def _numbers(self) -> list[int]:
        known = [header.number for header in self.headers]
        after = segment_file_name(known[-1]) if known else None
        names = self.store.list_after(SEGMENTS_FOLDER, after)
        found = [number for name in names if (number := segment_number(name)) is not None]
        return known + found if after is not None else found

    def _load(self, numbers: list[int]) -> None:
        numbers = self._complete(numbers)
        known = {header.number: header for header in self.headers}
        read = self._read_headers([number for number in numbers if number not in known])
        headers = [known.get(number) or read[number] for number in numbers]
        tail = self.tail
        if headers and (tail is None or tail.header.number != headers[-1].number):
            tail = SegmentIndex(headers[-1], ProducerTable(self.producer_seconds_max))
        if tail is not None and headers:
            self.torn = scan(self.path(tail.header.number), tail, None)
        self._check_schemas(headers, tail)
        self.headers, self.tail = headers, tail if headers else None

    def _complete(self, numbers: list[int]) -> list[int]:
        """The numbers of the segments that count: all from the first retained one on."""
        first = self.retained.latest() or 1
        counted = [number for number in numbers if number >= first]
        if not counted and first == 1 and not self.headers:
            return []
        for expected, number in enumerate(counted, first):
            if number != expected:
                raise self._missing(expected)
        if not counted:
            raise self._missing(first)
        return counted

    def _missing(self, number: int) -> DamageError:
        return DamageError(
            "a depot segment is missing",
            hint="restore the file from a backup",
            file=self.where(number),
        )

    def _read_headers(self, numbers: list[int]) -> dict[int, SegmentHeader]:
        """The headers of some segments, in order; those in a bucket many at once."""
        names = [segment_file_name(number) for number in numbers]
        if isinstance(self.folder, Path) or len(names) < _FEW:
            read = [header_of(self.store, name) for name in names]
        else:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                read = list(pool.map(partial(header_of, self.store), names))
        return {n: self._fitting_header(n, each) for n, each in zip(numbers, read, strict=True)}

    def _fitting_header(self, number: int, header: SegmentHeader) -> SegmentHeader:
        if header.number != number:
            raise DamageError(
                f"a depot segment is under the wrong name: it is number {header.number}",
                hint="restore the file from a backup",
                file=self.where(number),
            )
        if self.partitions is None:
            self.partitions = len(header.bases)
        if self.ddl is None:
            self.ddl = header.ddl
        if not self._ddl_given and extends(header.ddl, self.ddl):
            self.ddl = header.ddl
        if len(header.bases) != self.partitions:
            raise self._other_declaration(header)
        return header

    def _check_schemas(self, headers: list[SegmentHeader], tail: SegmentIndex | None) -> None:
        """Hold that all records can be read; a segment without any may be of any schema.

        There may be such a one of a version whose deployment never came to an end.
        """
        following = [*(each.bases for each in headers[1:]), [] if tail is None else tail.ends]
        for header, ends in zip(headers, following, strict=False):
            if header.number <= self._fitting or header.bases == ends:
                continue
            generation = generation_of_segment(self.migrations, header.bases)
            if not extends(schema_at(self.migrations, generation, self.ddl or ""), header.ddl):
                raise self._other_declaration(header)
            self._fitting = header.number

    def _other_declaration(self, header: SegmentHeader) -> DepotError:
        return DepotError(
            "the depot was made with another declaration",
            hint="schema and partition count are fixed for a depot's life, but for columns that "
            "are added at the end and may be null, and for migrations: use a new depot",
            depot=self.name,
            stored=f"{len(header.bases)} partitions of {header.ddl}",
            declared=f"{self.partitions} partitions of {self.ddl}",
        )

    def _index(self, at: int) -> SegmentIndex:
        header = self.headers[at]
        if self.tail is not None and self.tail.header.number == header.number:
            return self.tail
        found = self._indexes.get(header.number)
        if found is not None:
            self._indexes.move_to_end(header.number)
            return found
        return self._build_index(header, self.headers[at + 1])

    def _build_index(self, header: SegmentHeader, following: SegmentHeader) -> SegmentIndex:
        path = self.path(header.number)
        index = SegmentIndex(header)
        try:
            scan(path, index, following.previous_length)
        except FileNotFoundError as error:
            raise self._missing(header.number) from error
        if index.ends != following.bases or index.valid_length != following.previous_length:
            raise DamageError(
                "a depot segment does not lead to the next one",
                hint="restore the file from a backup",
                file=self.where(header.number),
            )
        self._keep(index)
        return index

    def _keep(self, index: SegmentIndex) -> None:
        self._indexes[index.header.number] = index
        while len(self._indexes) > _INDEXES_KEPT_MAX:
            self._indexes.popitem(last=False)
