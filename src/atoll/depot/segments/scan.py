"""Reading a segment file from front to back: what is valid, what is torn, what is damaged.

The end of the newest segment may be torn: a crash leaves a frame half written, which nobody was
ever told is stored. It is dropped. Everything else that cannot be read is damage and is reported:
what lies before a length that a later segment recorded, before the published length, or before a
readable frame that was written when the unreadable one was already durable.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atoll.depot.segments.format import (
    FRAME_MAGIC,
    FRAME_PREAMBLE_BYTES,
    HEADER_PREAMBLE_BYTES,
    FrameHeader,
    SegmentHeader,
    decode_frame_header,
    decode_header,
    header_length,
    parse_frame_preamble,
)
from atoll.depot.segments.index import SegmentIndex
from atoll.errors import DamageError, NotFoundError
from atoll.storage.local import LocalStore, storage_errors
from atoll.storage.roots import RootStore

_WINDOW_BYTES = 64 * 1024
_SEARCH_BYTES = 1024 * 1024
_HEADER_BYTES = 4096


def read_header(path: Path) -> SegmentHeader:
    """The header of a segment file.

    Raises:
        FileNotFoundError: When there is no such file.
        DamageError: When the header is not as written.
    """
    try:
        return header_of(LocalStore(path.parent), path.name)
    except NotFoundError as error:
        raise FileNotFoundError(str(path)) from error


def header_of(store: RootStore, name: str) -> SegmentHeader:
    """The header of a segment in a store: one read, but of schemas that are long.

    Raises:
        NotFoundError: When there is no such segment.
        DamageError: When the header is not as written.
    """
    where = str(store.root / name)
    block = store.beginning(name, _HEADER_BYTES)
    length = header_length(block[:HEADER_PREAMBLE_BYTES], where)
    if length > len(block) == _HEADER_BYTES:
        block = store.beginning(name, length)
    return decode_header(block[:length], where)


def scan(path: Path, index: SegmentIndex, limit: int | None) -> str | None:
    """Take the frames after ``index.valid_length`` into the index.

    Args:
        path: The segment file.
        index: What is known of it; it grows.
        limit: The length that a later segment recorded, so that all frames before it must be
            there (only headers are read: blocks are checked when they are read); None for the
            newest segment, whose payloads are checked too and whose end may be torn.

    Returns:
        What is torn at ``index.valid_length``, or None when the segment ends there.

    Raises:
        DamageError: When something that was stored cannot be read.
    """
    with _opened(path) as descriptor:
        end = os.fstat(descriptor).st_size if limit is None else limit
        window = _Window(descriptor)
        partitions = len(index.header.bases)
        problem = None
        while index.valid_length < end and problem is None:
            problem = _take_frame(window, index, end, partitions, verify=limit is None)
        if problem is None:
            return None
        if limit is not None or index.valid_length < index.header.published_length:
            raise _damage(path, index.valid_length, problem)
        if _durable_later(descriptor, index.valid_length, end):
            raise _damage(path, index.valid_length, problem)
        return problem


class _Window:
    """Reads of a file, ahead by a window so that small frames cost no system call each."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.start = 0
        self.data = b""

    def read(self, position: int, length: int) -> bytes:
        """The bytes there; fewer where the file ends."""
        at = position - self.start
        if at < 0 or at + length > len(self.data):
            self.data = os.pread(self.descriptor, max(length, _WINDOW_BYTES), position)
            self.start, at = position, 0
        return self.data[at : at + length]


def _take_frame(
    window: _Window, index: SegmentIndex, end: int, partitions: int, *, verify: bool
) -> str | None:
    """Take the next frame into the index, or say what is wrong with it."""
    position = index.valid_length
    preamble = parse_frame_preamble(window.read(position, FRAME_PREAMBLE_BYTES))
    if preamble is None:
        return "no frame begins here"
    length, payload_length, crc = preamble
    payload_at = position + FRAME_PREAMBLE_BYTES + length
    if payload_at + payload_length > end:
        return "the frame ends after the segment"
    encoded = window.read(position + FRAME_PREAMBLE_BYTES, length)
    frame = decode_frame_header(encoded, payload_length, crc) if len(encoded) == length else None
    if frame is None:
        return "the frame header's checksum does not match"
    if not _consistent(frame, payload_length, partitions):
        return "the frame header contradicts itself"
    if verify:
        for block in frame.blocks:
            data = window.read(payload_at, block.length)
            if len(data) != block.length or zlib.crc32(data) != block.crc:
                return "a block's checksum does not match"
            payload_at += block.length
    index.add(frame, length, payload_length)
    return None


def _consistent(frame: FrameHeader, payload_length: int, partitions: int) -> bool:
    return sum(block.length for block in frame.blocks) == payload_length and all(
        0 <= block.partition < partitions and block.rows > 0 for block in frame.blocks
    )


def _durable_later(descriptor: int, position: int, end: int) -> bool:
    """Whether a readable frame after the position was written when the position was durable."""
    at = position + 1
    while at < end:
        data = os.pread(descriptor, _SEARCH_BYTES, at)
        found = data.find(FRAME_MAGIC)
        while found >= 0:
            if _durable_length(descriptor, at + found) > position:
                return True
            found = data.find(FRAME_MAGIC, found + 1)
        at += max(1, len(data) - len(FRAME_MAGIC) + 1)
    return False


def _durable_length(descriptor: int, position: int) -> int:
    """What a frame at the position says was durable; 0 when none can be read there."""
    preamble = parse_frame_preamble(os.pread(descriptor, FRAME_PREAMBLE_BYTES, position))
    if preamble is None:
        return 0
    length, payload_length, crc = preamble
    encoded = os.pread(descriptor, length, position + FRAME_PREAMBLE_BYTES)
    frame = decode_frame_header(encoded, payload_length, crc) if len(encoded) == length else None
    return 0 if frame is None else frame.durable_length


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    with storage_errors_but_missing(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def storage_errors_but_missing(path: Path) -> Iterator[None]:
    """StorageError for the system's errors; a missing file stays FileNotFoundError."""
    with storage_errors(path):
        missing = None
        try:
            yield
        except FileNotFoundError as error:
            missing = error
    if missing is not None:
        raise missing


def _damage(path: Path, position: int, problem: str) -> DamageError:
    return DamageError(
        f"a depot segment is damaged: {problem}",
        hint="restore the file from a backup",
        file=str(path),
        position=position,
    )
