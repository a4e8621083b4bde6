"""The bytes of a segment file: a header block, then frames.

::

    header block   magic 8 | format u32 | block length u32 | meta length u32 | crc u32
                   meta (msgpack SegmentHeader) | zeros up to the block length
    frame          magic 4 | header length u32 | payload length u64 | crc u32
                   header (msgpack FrameHeader) | payload: the blocks, one after the other

The header block's CRC covers all of it but the CRC itself; a frame's covers lengths and header;
each block's stands in the frame header. So every byte is covered, and headers can be trusted
without reading payloads. A frame belongs to all depot partitions it has blocks for, at once: it
counts whole or not at all.

All integers are little-endian.
"""

from __future__ import annotations

import struct
import zlib

import msgspec
import pyarrow as pa

from atoll.depot.producers.table import ProducerMark
from atoll.depot.segments.blocks import EncodedBlock
from atoll.errors import DamageError, StorageError

FORMAT_VERSION = 1
FRAME_MAGIC = b"\xa7FRM"
_SEGMENT_MAGIC = b"ATOLSEG\n"
_HEADER = struct.Struct("<8sIIII")
_FRAME = struct.Struct("<4sIQI")
_FRAME_CHECKED = struct.Struct("<IQ")
_ALIGNMENT = 4096
_HEADER_BLOCK_BYTES_MAX = 16 * 1024 * 1024
_FRAME_HEADER_BYTES_MAX = 256 * 1024 * 1024

HEADER_PREAMBLE_BYTES = _HEADER.size
FRAME_PREAMBLE_BYTES = _FRAME.size


class SegmentHeader(msgspec.Struct, frozen=True, array_like=True):
    """What a segment says of itself and of the one before it.

    Attributes:
        number: The segment's number; the file's name says the same.
        writer: The number of the writer's claim (each opening for writing makes a claim).
        epoch: The epoch of that writer.
        bases: Per depot partition, the offset of the first record in this segment or later.
        previous_length: How many bytes of the segment before this one count. What lies beyond
            was never acknowledged.
        published_length: How many bytes of this segment were there, and durable, when it
            appeared: at least the header block.
        time_ms: When it appeared (epoch milliseconds); also the append time of the frames
            within ``published_length``.
        ddl: The schema of the records.
    """

    number: int
    writer: int
    epoch: int
    bases: list[int]
    previous_length: int
    published_length: int
    time_ms: int
    ddl: str


class BlockEntry(msgspec.Struct, frozen=True, array_like=True):
    """One block of a frame; blocks lie in this order in the payload."""

    partition: int
    rows: int
    length: int
    crc: int


class FrameHeader(msgspec.Struct, frozen=True, array_like=True):
    """What a frame holds.

    Attributes:
        time_ms: Append time, epoch milliseconds; never lower than that of a frame before.
        durable_length: How much of the segment was fsynced when this frame was written. A frame
            that cannot be read before that point is damage, never a torn write.
        blocks: The payload's blocks.
        producers: The appends with a producer among those in the frame. A frame without blocks
            carries those that a segment must repeat, so that earlier segments may go.
    """

    time_ms: int
    durable_length: int
    blocks: list[BlockEntry]
    producers: list[ProducerMark] = []


_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(SegmentHeader)
_frame_decoder = msgspec.msgpack.Decoder(FrameHeader)


def header_block_bytes(partitions: int, ddl: str) -> int:
    """The length of a header block: enough for any values the header will get."""
    most = _HEADER.size + 128 + 9 * partitions + len(ddl.encode())
    return -(-most // _ALIGNMENT) * _ALIGNMENT


def encode_header(header: SegmentHeader) -> bytes:
    """The whole header block."""
    length = header_block_bytes(len(header.bases), header.ddl)
    meta = _encoder.encode(header)
    body = meta + bytes(length - _HEADER.size - len(meta))
    crc = _header_crc(FORMAT_VERSION, length, len(meta), body)
    return _HEADER.pack(_SEGMENT_MAGIC, FORMAT_VERSION, length, len(meta), crc) + body


def header_length(preamble: bytes, file: str) -> int:
    """The header block's length, from the file's first bytes.

    Raises:
        DamageError: When they cannot begin a segment.
    """
    if len(preamble) < _HEADER.size:
        raise _damaged_header("it is too short", file)
    magic, _, length, _, _ = _HEADER.unpack_from(preamble)
    if magic != _SEGMENT_MAGIC:
        raise _damaged_header("it does not begin as it must", file)
    if not _HEADER.size <= length <= _HEADER_BLOCK_BYTES_MAX:
        raise _damaged_header("its length cannot be", file)
    return int(length)


def decode_header(block: bytes, file: str) -> SegmentHeader:
    """The header in a whole header block.

    Raises:
        DamageError: When the block is not as written.
        StorageError: When a later version of Atoll wrote it.
    """
    length = header_length(block, file)
    _, version, _, meta_length, crc = _HEADER.unpack_from(block)
    body = block[_HEADER.size : length]
    if len(block) < length or _header_crc(version, length, meta_length, body) != crc:
        raise _damaged_header("its checksum does not match", file)
    if version != FORMAT_VERSION:
        raise StorageError(
            f"a depot segment has format {version}, this Atoll reads {FORMAT_VERSION}",
            hint="use the version of Atoll that wrote it, or a later one",
            file=file,
        )
    return _header_decoder.decode(body[:meta_length])


def encode_frame(
    blocks: list[EncodedBlock],
    time_ms: int,
    durable_length: int,
    producers: list[ProducerMark] | None = None,
) -> tuple[FrameHeader, list[bytes | pa.Buffer], int]:
    """A frame's header, the buffers to write in order, and the encoded header's length."""
    entries = [
        BlockEntry(block.partition, block.rows, block.data.size, block.crc) for block in blocks
    ]
    header = FrameHeader(time_ms, durable_length, entries, producers or [])
    encoded = _encoder.encode(header)
    payload_length = sum(entry.length for entry in entries)
    crc = _frame_crc(len(encoded), payload_length, encoded)
    preamble = _FRAME.pack(FRAME_MAGIC, len(encoded), payload_length, crc)
    return header, [preamble + encoded, *(block.data for block in blocks)], len(encoded)


def parse_frame_preamble(preamble: bytes) -> tuple[int, int, int] | None:
    """Header length, payload length and CRC, or None when no frame begins like that."""
    if len(preamble) < _FRAME.size:
        return None
    magic, length, payload_length, crc = _FRAME.unpack_from(preamble)
    if magic != FRAME_MAGIC or length > _FRAME_HEADER_BYTES_MAX:
        return None
    return length, payload_length, crc


def decode_frame_header(encoded: bytes, payload_length: int, crc: int) -> FrameHeader | None:
    """The frame header, or None when its checksum does not match."""
    if _frame_crc(len(encoded), payload_length, encoded) != crc:
        return None
    try:
        return _frame_decoder.decode(encoded)
    except msgspec.MsgspecError:
        return None


def _header_crc(version: int, length: int, meta_length: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(struct.pack("<III", version, length, meta_length)))


def _frame_crc(length: int, payload_length: int, encoded: bytes) -> int:
    return zlib.crc32(encoded, zlib.crc32(_FRAME_CHECKED.pack(length, payload_length)))


def _damaged_header(reason: str, file: str) -> DamageError:
    return DamageError(
        f"a depot segment's header is damaged: {reason}",
        hint="restore the file from a backup",
        file=file,
    )
