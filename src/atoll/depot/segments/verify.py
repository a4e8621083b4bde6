"""Looking at every byte of a depot that nobody writes, past the first damage.

Opening a depot stops at damage, because nothing may be built on it. Whoever has to repair one
wants all of it: each place that is not as written, and which offsets are lost with it.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import msgspec
import pyarrow as pa

from atoll.ddl import parse_ddl
from atoll.depot.segments.acknowledged import check_notes
from atoll.depot.segments.format import (
    FRAME_MAGIC,
    FRAME_PREAMBLE_BYTES,
    BlockEntry,
    FrameHeader,
    SegmentHeader,
    decode_frame_header,
    header_block_bytes,
    parse_frame_preamble,
)
from atoll.depot.segments.index import SEGMENTS_FOLDER, segment_file_name, segment_number
from atoll.depot.segments.scan import header_of
from atoll.errors import AtollError, NotFoundError
from atoll.storage.numbered import NumberedObjects
from atoll.storage.places import Place
from atoll.storage.roots import RootStore, open_store

_COST_OF_OBJECTS = {
    "writers": "the module does not start until it is restored, or deleted while no process runs "
    "the module: it says only who writes the depot",
    "retained": "none: its name alone says from which segment on records are kept",
}
"""The kinds of numbered objects in a depot's folder, and what a damaged one costs."""

_COST_OF_NOTES = "no record: processes that tail the depot by its root fail until it is deleted"
_MISSING = "the segment is missing"
_ALL_LOST = "all records of the segment are lost"


Data: TypeAlias = "mmap.mmap | bytes"


class DepotDamage(msgspec.Struct, frozen=True):
    """One thing in a depot that is not as written.

    Attributes:
        file: The file.
        position: Where in it, in bytes.
        what: What is wrong.
        cost: Which depot partitions and offsets are lost with it.
    """

    file: str
    position: int
    what: str
    cost: str


def verify_depot(folder: Place | str) -> Iterator[DepotDamage]:
    """Every damage in a depot's segments, markers and claims, oldest segment first.

    The torn end of the newest segment is none: nobody was told that it is stored.

    Args:
        folder: The depot's folder; nothing in it is changed.
    """
    folder = Path(folder) if isinstance(folder, str) else folder
    store = open_store(folder)
    for name, cost in _COST_OF_OBJECTS.items():
        yield from _objects(store, name, cost)
    for path, what in check_notes(folder) if isinstance(folder, Path) else ():
        yield DepotDamage(_shown(store, path), 0, what, _COST_OF_NOTES)
    first = _first(store)
    numbers = [segment_number(name) for name in store.list(SEGMENTS_FOLDER)]
    present = {n for n in numbers if n is not None and n >= first}
    if not present and first == 1:
        return
    following: SegmentHeader | None = None
    walks = []
    for number in range(max(present, default=first), first - 1, -1):
        header, reason = _header(store, number)
        walks.append((number, header, following, reason))
        following = header
    newest = walks[0][0]
    for number, header, after, reason in reversed(walks):
        name = segment_file_name(number)
        found = [DepotDamage(_shown(store, name), 0, reason, _ALL_LOST)]
        if header is not None:
            try:
                found = list(_Walk(store, header, after, newest=number == newest).run())
            except (FileNotFoundError, NotFoundError):
                found = [DepotDamage(_shown(store, name), 0, _MISSING, _ALL_LOST)]
        if not _was_dropped(store, number):
            yield from found


def _was_dropped(store: RootStore, number: int) -> bool:
    """Whether retention took a segment away while it was looked at."""
    return number < _first(store) and not store.exists(segment_file_name(number))


def _first(store: RootStore) -> int:
    """The first segment that is kept."""
    return max(NumberedObjects(store, "retained").numbers(), default=1)


def _shown(store: RootStore, name: str | Path) -> str:
    """A file of the depot as damage names it."""
    return str(store.root / str(name)) if isinstance(store.root, Path) else str(name)


def _objects(store: RootStore, name: str, cost: str) -> Iterator[DepotDamage]:
    """What is wrong with the depot's numbered objects of one kind."""
    for other in store.list(name):
        if not PurePosixPath(other).stem.isdecimal():
            what = "its name is no number"
            yield DepotDamage(_shown(store, other), 0, what, "nothing: delete it")
    objects = NumberedObjects(store, name)
    for number in objects.numbers():
        try:
            objects.read(number)
        except NotFoundError:
            continue  # dropped meanwhile
        except AtollError as error:
            yield DepotDamage(_shown(store, objects.name(number)), 0, error.message, cost)


def _header(store: RootStore, number: int) -> tuple[SegmentHeader | None, str]:
    """A segment's header, or why there is none."""
    try:
        header = header_of(store, segment_file_name(number))
    except NotFoundError:
        return None, _MISSING
    except (AtollError, msgspec.MsgspecError) as error:
        return None, error.message if isinstance(error, AtollError) else str(error)
    if header.number != number:
        return None, f"the segment is under the wrong name: it is number {header.number}"
    return header, ""


class _Walk:
    """One segment from front to back.

    Args:
        store: The depot's folder.
        header: Its header.
        after: The header of the one after it, which says how it ends; None when that is not known.
        newest: Whether none follows, so that its end may be torn.
    """

    def __init__(
        self, store: RootStore, header: SegmentHeader, after: SegmentHeader | None, *, newest: bool
    ) -> None:
        """At its first frame."""
        self.store = store
        self.name = segment_file_name(header.number)
        self.path = _shown(store, self.name)
        self.header = header
        self.after = after
        self.newest = newest
        self.ends = list(header.bases)
        self.counted = True  # whether offsets are known: not behind a frame that cannot be read
        self.schema = parse_ddl(header.ddl)

    def run(self) -> Iterator[DepotDamage]:
        """What is wrong in it."""
        position = header_block_bytes(len(self.header.bases), self.header.ddl)
        with self._data() as data:
            end = len(data) if self.after is None else self.after.previous_length
            if end > len(data):
                what = f"the segment ends {end - len(data)} bytes early"
                yield DepotDamage(self.path, len(data), what, self._rest())
                end, self.counted = len(data), False
            while position < end:
                frame, length = _frame_at(data, position, end)
                if frame is None:
                    following = _next_frame(data, position + 1, end)
                    if self._torn(data, position, following, end):
                        return
                    what = "no frame can be read here"
                    yield DepotDamage(self.path, position, what, self._rest())
                    position, self.counted = following, False
                    continue
                yield from self._blocks(data, position + length, frame.blocks)
                position += length + sum(block.length for block in frame.blocks)
        if self.after is not None and self.counted and self.ends != list(self.after.bases):
            what = "the segment does not lead to the next one"
            yield DepotDamage(self.path, position, what, self._rest())

    @contextmanager
    def _data(self) -> Iterator[Data]:
        """The segment's bytes as they are stored: no copy of a cache."""
        if not isinstance(self.store.root, Path):
            yield self.store.read(self.name)
            return
        with (
            self.store.file(self.name).open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data,
        ):
            yield data

    def _torn(self, data: Data, position: int, following: int, end: int) -> bool:
        """Whether what cannot be read is an append that nobody was told is stored."""
        if not self.newest or position < self.header.published_length:
            return False
        while following < end:
            frame, _ = _frame_at(data, following, end)
            if frame is not None and frame.durable_length > position:
                return False
            following = _next_frame(data, following + 1, end)
        return True

    def _blocks(
        self, data: Data, position: int, blocks: Sequence[BlockEntry]
    ) -> Iterator[DepotDamage]:
        for block in blocks:
            start = self.ends[block.partition]
            self.ends[block.partition] += block.rows
            problem = self._problem(data[position : position + block.length], block)
            if problem:
                span = f"offsets {start} to {start + block.rows - 1}"
                where = span if self.counted else f"{block.rows} records (offsets not known)"
                cost = f"depot partition {block.partition}: {where}"
                yield DepotDamage(self.path, position, problem, cost)
            position += block.length

    def _problem(self, data: bytes, block: BlockEntry) -> str:
        """What is wrong with a block; empty when nothing is."""
        if zlib.crc32(data) != block.crc:
            return "a block's checksum does not match"
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), self.schema)
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            return f"a block cannot be decoded: {error}"
        return "" if batch.num_rows == block.rows else "a block holds another number of records"

    def _rest(self) -> str:
        """What is lost when offsets cannot be counted any further."""
        if not self.counted:
            return "counted with the damage before it"
        if self.after is None:
            return "; ".join(
                f"depot partition {n}: offsets from {end} on" for n, end in enumerate(self.ends)
            )
        lost = [
            f"depot partition {partition}: offsets {end} to {base - 1}"
            for partition, (end, base) in enumerate(zip(self.ends, self.after.bases, strict=False))
            if base > end
        ]
        return "; ".join(lost) or "no records"


def _frame_at(data: Data, position: int, end: int) -> tuple[FrameHeader | None, int]:
    """The frame header there and the bytes before its blocks; None when none can be read."""
    payload_at = position + FRAME_PREAMBLE_BYTES
    preamble = parse_frame_preamble(data[position:payload_at])
    if preamble is None:
        return None, 0
    length, payload_length, crc = preamble
    frame = decode_frame_header(data[payload_at : payload_at + length], payload_length, crc)
    if frame is None or payload_at + length + payload_length > end:
        return None, 0
    return frame, FRAME_PREAMBLE_BYTES + length


def _next_frame(data: Data, position: int, end: int) -> int:
    """Where the next readable frame begins; the end when there is none."""
    while (found := data.find(FRAME_MAGIC, position, end)) >= 0:
        if _frame_at(data, found, end)[0] is not None:
            return found
        position = found + 1
    return end
