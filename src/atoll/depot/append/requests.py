"""Appends on their way to the disk, and how several of them become the frames of one group."""

from __future__ import annotations

import threading
from typing import Any

from atoll.codec.records.codec import RecordCodec
from atoll.depot.append.staging import StagedSegment
from atoll.depot.partitioner import RecordParts
from atoll.depot.producers.table import Producer, ProducerMark
from atoll.depot.segments.blocks import BLOCK_BYTES, EncodedBlock, encode_block, encode_blocks


class AppendRequest:
    """One append on its way through the writer thread: exactly one of three forms.

    Args:
        records: Few records, per depot partition; the writer encodes them with others.
        blocks: More records, encoded by the appender already.
        staged: A whole segment, written by the appender already.

    Attributes:
        producer: Who appends, where an append sent again is to be recognised.
        crc: CRC-32 of the producer's records.
        mark: What the frame says of the producer, once the append is found to be new.
        offsets: Per depot partition, the first offset and the one after the last.
        duplicate: Whether it was stored before.
        settled: Whether its answer does not depend on the group being stored.
        error: Why nothing of it is stored.
        done: Released when all that is known.
    """

    __slots__ = (
        "blocks",
        "bytes",
        "crc",
        "done",
        "duplicate",
        "error",
        "mark",
        "offsets",
        "producer",
        "records",
        "settled",
        "staged",
    )

    def __init__(
        self,
        *,
        records: RecordParts | None = None,
        blocks: list[EncodedBlock] | None = None,
        staged: StagedSegment | None = None,
    ) -> None:
        self.records = records
        self.blocks = blocks
        self.staged = staged
        self.bytes = sum(block.data.size for block in blocks or ())
        self.producer: Producer | None = None
        self.crc = 0
        self.mark: ProducerMark | None = None
        self.duplicate = False
        self.settled = False
        self.error: BaseException | None = None
        self.offsets: dict[int, tuple[int, int]] = {}
        self.done = threading.Lock()
        self.done.acquire()

    def counts(self) -> list[tuple[int, int]]:
        """Depot partition and number of records, for each of the request's pieces in order."""
        if self.records is not None:
            return [(partition, len(records)) for partition, records in self.records]
        if self.blocks is not None:
            return [(block.partition, block.rows) for block in self.blocks]
        frames = self.staged.frames if self.staged is not None else []
        return [(block.partition, block.rows) for frame, *_ in frames for block in frame.blocks]


def runs_of(group: list[AppendRequest]) -> list[list[AppendRequest]]:
    """The group in order, cut so that a staged segment stands alone."""
    runs: list[list[AppendRequest]] = []
    for request in group:
        if runs and request.staged is None and runs[-1][0].staged is None:
            runs[-1].append(request)
        else:
            runs.append([request])
    return runs


def merged(
    run: list[AppendRequest], codec: RecordCodec
) -> list[tuple[list[EncodedBlock], list[ProducerMark]]]:
    """Blocks and producers of each frame to write: neighbouring small appends share one."""
    frames: list[tuple[list[EncodedBlock], list[ProducerMark]]] = []
    small: dict[int, list[Any]] = {}
    marks: list[ProducerMark] = []

    def flush() -> None:
        nonlocal marks
        if small:
            frames.append((_encode_records(small, codec), marks))
            small.clear()
            marks = []

    for request in run:
        own = [request.mark] if request.mark is not None else []
        if request.records is not None:
            marks += own
            for partition, records in request.records:
                small.setdefault(partition, []).extend(records)
        elif request.blocks is not None:
            flush()
            frames.append((request.blocks, own))
    flush()
    return frames


def _encode_records(small: dict[int, list[Any]], codec: RecordCodec) -> list[EncodedBlock]:
    """Blocks of records per depot partition, built as one batch: each call into Arrow counts."""
    batch = codec.batch_of([record for partition in sorted(small) for record in small[partition]])
    parts, start = [], 0
    for partition in sorted(small):
        parts.append((partition, batch.slice(start, len(small[partition]))))
        start += len(small[partition])
    if batch.nbytes > BLOCK_BYTES:
        return encode_blocks(parts)
    return [encode_block(partition, piece) for partition, piece in parts]
