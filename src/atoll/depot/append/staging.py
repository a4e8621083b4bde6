"""An append too large for memory: written beside the log, then published whole or dropped.

Nothing of it can be seen before its last record is checked and on disk; then one link makes it
the depot's next segment.
"""

from __future__ import annotations

from atoll.depot.producers.table import ProducerMark
from atoll.depot.segments.blocks import EncodedBlock
from atoll.depot.segments.format import FrameHeader, encode_frame
from atoll.depot.segments.segment_file import SegmentFile
from atoll.storage.places import Place


class StagedSegment:
    """A segment that its appender writes by itself.

    Args:
        folder: The depot's folder.
        writer: The number of its writer's claim.
        partitions: How many depot partitions the depot has.
        ddl: The schema's text.

    Attributes:
        frames: Header, encoded header's length and payload's length of each frame written.
        handed_over: Set when the writer has been asked to publish it: it owns the file then.
    """

    def __init__(self, folder: Place, writer: int, partitions: int, ddl: str) -> None:
        self.file = SegmentFile(folder, writer, partitions, ddl)
        self.frames: list[tuple[FrameHeader, int, int]] = []
        self.handed_over = False

    def add(self, blocks: list[EncodedBlock]) -> None:
        """Write one frame. Its append time is the segment's, set when it is published."""
        header, buffers, header_bytes = encode_frame(blocks, 0, 0)
        self.file.write(buffers)
        self.frames.append((header, header_bytes, sum(block.length for block in header.blocks)))

    def add_producers(self, marks: list[ProducerMark]) -> None:
        """Write what the segment must say of producers, as a frame without records."""
        length = self.file.position
        header, buffers, header_bytes = encode_frame([], 0, 0, marks)
        self.file.write(buffers)
        self.frames.append((header, header_bytes, 0))
        self.file.carried_bytes = self.file.position - length

    def discard(self) -> None:
        """Delete the file unless the writer owns it. May be called again."""
        if not self.handed_over:
            self.file.close()
