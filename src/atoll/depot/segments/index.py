"""Where the records of one segment lie: an offset or a time leads to blocks by bisection.

The index lives in memory only. It is built from frame headers, so it never disagrees with the
file, and costs 48 bytes per block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from atoll.depot.producers.table import ProducerTable
from atoll.depot.segments.blocks import BlockRef
from atoll.depot.segments.format import (
    FRAME_PREAMBLE_BYTES,
    FrameHeader,
    SegmentHeader,
    header_block_bytes,
)

SEGMENTS_FOLDER = "segments"


def segment_file_name(number: int) -> str:
    """A segment's file, relative to the depot's folder."""
    return f"{SEGMENTS_FOLDER}/{number:020d}.seg"


def segment_number(name: str) -> int | None:
    """The number of a segment by the name of its file; None for other files."""
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    return int(stem) if dot and ending == "seg" and stem.isdecimal() else None


class _PartitionIndex:
    """The blocks of one depot partition, by rising offset."""

    __slots__ = ("crcs", "lengths", "positions", "rows", "starts", "times")

    def __init__(self) -> None:
        self.starts = array("q")
        self.rows = array("q")
        self.positions = array("q")
        self.lengths = array("q")
        self.crcs = array("q")
        self.times = array("q")


class SegmentIndex:
    """The frames of one segment read (or written) so far. Guarded by its owner's lock.

    Attributes:
        header: The segment's header.
        ends: Per depot partition, the offset after its last record.
        valid_length: How many bytes of the file the index covers.
        time_ms: The append time of the last frame, or the segment's own.
        producers: What the newest segment's frames say of producers; None for other segments.
    """

    def __init__(self, header: SegmentHeader, producers: ProducerTable | None = None) -> None:
        self.header = header
        self.producers = producers
        self.file = segment_file_name(header.number)
        self.ends = list(header.bases)
        self.valid_length = header_block_bytes(len(header.bases), header.ddl)
        self.time_ms = header.time_ms
        self._partitions: dict[int, _PartitionIndex] = {}

    def add(self, frame: FrameHeader, header_bytes: int, payload_bytes: int) -> None:
        """Take in the frame that begins at ``valid_length``."""
        if self.valid_length >= self.header.published_length:
            self.time_ms = max(self.time_ms, frame.time_ms)
        position = self.valid_length + FRAME_PREAMBLE_BYTES + header_bytes
        for block in frame.blocks:
            part = self._partitions.get(block.partition)
            if part is None:
                part = self._partitions[block.partition] = _PartitionIndex()
            part.starts.append(self.ends[block.partition])
            part.rows.append(block.rows)
            part.positions.append(position)
            part.lengths.append(block.length)
            part.crcs.append(block.crc)
            part.times.append(self.time_ms)
            self.ends[block.partition] += block.rows
            position += block.length
        self.valid_length += FRAME_PREAMBLE_BYTES + header_bytes + payload_bytes
        if self.producers is not None and frame.producers:
            self.producers.apply(frame.producers)

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """The blocks with the offsets from ``start`` up to ``end`` that lie in this segment."""
        part = self._partitions.get(partition)
        if part is None:
            return []
        refs = []
        at = max(0, bisect_right(part.starts, start) - 1)
        while at < len(part.starts) and part.starts[at] < end:
            first, rows = part.starts[at], part.rows[at]
            skip = max(0, start - first)
            take = min(rows, end - first) - skip
            if take > 0:
                refs.append(
                    BlockRef(
                        self.file,
                        part.positions[at],
                        part.lengths[at],
                        part.crcs[at],
                        rows,
                        skip,
                        take,
                        partition,
                        first,
                    )
                )
            at += 1
        return refs

    def ends_within(self, length: int) -> tuple[int, ...]:
        """Per depot partition, the offset after the last record in the file's first bytes."""
        ends = list(self.header.bases)
        for partition, part in self._partitions.items():
            count = bisect_left(part.positions, length)
            if count:
                ends[partition] = part.starts[count - 1] + part.rows[count - 1]
        return tuple(ends)

    def sizes(self, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """For each block of a range that lies in this segment where it ends, and its bytes.

        Of a block that lies in it in part, as many bytes as the rows that do.
        """
        part = self._partitions.get(partition)
        if part is None:
            return
        first = max(0, bisect_right(part.starts, start) - 1)
        stop = bisect_left(part.starts, end)
        for at in range(first, stop):
            begins, rows = part.starts[at], part.rows[at]
            ends = min(begins + rows, end)
            taken = ends - max(begins, start)
            if taken == rows:
                yield ends, part.lengths[at]
            elif taken > 0:
                yield ends, -(-part.lengths[at] * taken // rows)

    def offset_after(self, partition: int, time_ms: int) -> int:
        """The offset of the first record appended after the time; the end when there is none."""
        part = self._partitions.get(partition)
        if part is None:
            return self.ends[partition]
        at = bisect_right(part.times, time_ms)
        return part.starts[at] if at < len(part.starts) else self.ends[partition]
