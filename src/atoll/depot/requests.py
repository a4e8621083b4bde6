"""Appends on their way to the disk, and how several of them become the frames of one group."""

from __future__ import annotations

import threading
from typing import Any

from atoll.codec.records import RecordCodec
from atoll.depot.blocks import BLOCK_BYTES, EncodedBlock, encode_block, encode_blocks
from atoll.depot.partitioner import RecordParts
from atoll.depot.staging import StagedSegment

__all__ = ["AppendRequest", "merged", "runs_of"]


class AppendRequest:
    """One append on its way through the writer thread: exactly one of three forms.

    Args:
        records: Few records, per depot partition; the writer encodes them with others.
        blocks: More records, encoded by the appender already.
        staged: A whole segment, written by the appender already.
    """

    __slots__ = ("blocks", "bytes", "done", "error", "offsets", "records", "staged")

    def __init__(
        self,
        *,
        records: RecordParts | None = None,
        blocks: list[EncodedBlock] | None = None,
        staged: StagedSegment | None = None,
    ) -> None:
        """A request that nobody has seen yet."""
        self.records = records
        self.blocks = blocks
        self.staged = staged
        self.bytes = sum(block.data.size for block in blocks or ())
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


def merged(run: list[AppendRequest], codec: RecordCodec) -> list[list[EncodedBlock]]:
    """The blocks of each frame to write: neighbouring small appends share one."""
    frames: list[list[EncodedBlock]] = []
    small: dict[int, list[Any]] = {}

    def flush() -> None:
        if small:
            frames.append(_encode_records(small, codec))
            small.clear()

    for request in run:
        if request.records is not None:
            for partition, records in request.records:
                small.setdefault(partition, []).extend(records)
        elif request.blocks is not None:
            flush()
            frames.append(request.blocks)
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
