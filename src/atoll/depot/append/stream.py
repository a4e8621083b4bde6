"""One append call of any size: in memory while it is small, staged on disk beyond that."""

from __future__ import annotations

import pyarrow as pa

from atoll.codec.records.refusals import Checked
from atoll.depot.append.requests import AppendRequest
from atoll.depot.append.staging import StagedSegment
from atoll.depot.partitioner import Placer
from atoll.depot.segments.blocks import EncodedBlock, encode_blocks
from atoll.storage.places import Place

MEMORY_BYTES_MAX = 16 * 1024 * 1024
_CHUNK_BYTES = 4 * 1024 * 1024
_CHUNK_BATCHES = 4096
_RECORDS_MAX = 64
_RECORDS_BYTES_MAX = 64 * 1024


class StreamAppend:
    """Collects the batches of one call into one request. Used by one thread.

    Args:
        folder: The depot's folder.
        writer: The number of its writer's claim.
        placer: Divides batches among the depot partitions.
        partitions: How many depot partitions there are.
        ddl: The schema's text.
    """

    def __init__(
        self, folder: Place, writer: int, placer: Placer, partitions: int, ddl: str
    ) -> None:
        self._open = (folder, writer, partitions, ddl)
        self._placer = placer
        self._only: Checked | None = None
        self._started = False
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        self._blocks: list[EncodedBlock] = []
        self._block_bytes = 0
        self._staged: StagedSegment | None = None

    def add(self, checked: Checked) -> None:
        """Take in records; most of what was taken in before is on disk by now."""
        if checked.batch.num_rows == 0:
            return
        if self._only is None and not self._started and _is_small(checked):
            self._only = checked
            return
        self._start()
        self._collect(checked.batch)

    def request(self) -> AppendRequest:
        """What to submit for all that was taken in."""
        if self._only is not None:
            parts = self._placer.divide_records(self._only.batch, self._only.records or [])
            return AppendRequest(records=parts)
        self._encode()
        if self._staged is None:
            return AppendRequest(blocks=self._blocks)
        self._flush(self._staged)
        self._staged.file.sync()
        return AppendRequest(staged=self._staged)

    def discard(self) -> None:
        """Drop what is staged, unless the writer owns it by now. May be called again."""
        if self._staged is not None:
            self._staged.discard()

    def _start(self) -> None:
        """There is more than a few records: treat the first ones like all others."""
        self._started = True
        if self._only is not None:
            self._collect(self._only.batch)
            self._only = None

    def _collect(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._batch_bytes += batch.nbytes
        if self._batch_bytes >= _CHUNK_BYTES or len(self._batches) >= _CHUNK_BATCHES:
            self._encode()

    def _joined(self) -> pa.RecordBatch:
        if len(self._batches) == 1:
            return self._batches[0]
        return pa.Table.from_batches(self._batches).combine_chunks().to_batches()[0]

    def _encode(self) -> None:
        if self._batches:
            blocks = encode_blocks(self._placer.divide(self._joined()))
            self._blocks += blocks
            self._block_bytes += sum(block.data.size for block in blocks)
            self._batches, self._batch_bytes = [], 0
        if self._staged is None and self._block_bytes > MEMORY_BYTES_MAX:
            self._staged = StagedSegment(*self._open)
        if self._staged is not None and self._block_bytes >= _CHUNK_BYTES:
            self._flush(self._staged)

    def _flush(self, staged: StagedSegment) -> None:
        if self._blocks:
            staged.add(self._blocks)
            self._blocks, self._block_bytes = [], 0


def _is_small(checked: Checked) -> bool:
    """Whether the records are few enough to be encoded together with other appends'."""
    if checked.records is None or len(checked.records) > _RECORDS_MAX:
        return False
    return len(checked.records) == 1 or checked.batch.nbytes <= _RECORDS_BYTES_MAX
