"""What a microbatch overwrote in one vnode, as one compact value.

A reverse log holds sorted keys and the value that each had before (or that it had none). It is
written in the transaction that overwrote them, and read for three purposes: to undo, to show the
state before it to readers (an *overlay*), and to say what changed. Most are never read at all, so
building one must cost next to nothing: it is what Arrow makes of the two lists, in their order.
Calling Arrow for a few keys costs more than the keys, and a small microbatch has a few in each of
many vnodes: those are packed by hand, to the same bytes.

Layout, little-endian: magic (4 bytes), count n (u32), key offsets (u32 * (n+1)), value offsets
(u32 * (n+1)), absent bitmap ((n+7)//8 bytes), the keys, the values. Offsets count from the start
of their own area.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from atoll.errors import DamageError, TooLargeError

_MAGIC = b"ARL1"
_HEAD = struct.Struct("<4sI")
_OFFSET = struct.Struct("<I")
_FEW = 64
"""Up to so many keys are packed by hand; measured with short keys and values."""
_OFFSET_MAX = 2**31 - 1


def encode_reverse_log(keys: Sequence[bytes], olds: Sequence[bytes | None]) -> bytes:
    """The stored form.

    Args:
        keys: Sorted and unique.
        olds: The value that each key had before; None when it had none.

    Raises:
        TooLargeError: When the keys or the values take more than 2 GiB.
    """
    if len(keys) <= _FEW:
        found = _encoded_few(keys, olds)
        if found is not None:
            return found
    key_column, old_column = pa.array(keys, pa.binary()), pa.array(olds, pa.binary())
    if not isinstance(key_column, pa.Array) or not isinstance(old_column, pa.Array):
        raise TooLargeError(
            "one microbatch overwrote more than 2 GiB in one vnode",
            hint="declare more vnodes for the PState, or lower depot.microbatch.max.bytes",
        )
    key_offsets, key_bytes = _parts(key_column)
    old_offsets, old_bytes = _parts(old_column)
    head = _HEAD.pack(_MAGIC, len(keys))
    return b"".join((head, key_offsets, old_offsets, _absent(old_column), key_bytes, old_bytes))


def _encoded_few(keys: Sequence[bytes], olds: Sequence[bytes | None]) -> bytes | None:
    """The stored form without Arrow; None when it is too large for offsets."""
    count = len(keys)
    values = [b"" if old is None else old for old in olds]
    key_offsets = accumulate(map(len, keys), initial=0)
    offsets = (*key_offsets, *accumulate(map(len, values), initial=0))
    if max(offsets[count], offsets[-1]) > _OFFSET_MAX:
        return None
    absent = sum(1 << place for place, old in enumerate(olds) if old is None)
    head = _HEAD.pack(_MAGIC, count) + struct.pack(f"<{2 * count + 2}I", *offsets)
    return b"".join((head, absent.to_bytes((count + 7) // 8, "little"), *keys, *values))


def _parts(column: pa.Array) -> tuple[memoryview, memoryview]:
    """The offsets and the bytes of a column that is no slice."""
    _, offset_buffer, data = column.buffers()
    offsets = memoryview(offset_buffer)[: 4 * (len(column) + 1)]
    (end,) = _OFFSET.unpack_from(offsets, 4 * len(column))
    return offsets, memoryview(data or b"")[:end]


def _absent(column: pa.Array) -> bytes:
    """The bitmap of the nulls of a column that is no slice."""
    size = (len(column) + 7) // 8
    if not column.null_count:
        return bytes(size)
    absent = ~np.frombuffer(column.buffers()[0], np.uint8, size)
    if len(column) % 8:
        absent[-1] &= (1 << len(column) % 8) - 1
    return absent.tobytes()


class ReverseLog(Sequence[bytes]):
    """A reverse log read in place: nothing is decoded before it is asked for.

    As a sequence it is its sorted keys.
    """

    __slots__ = ("_absent", "_count", "_data", "_key_at", "_keys", "_value_at", "_values")

    def __init__(self, data: bytes) -> None:
        """Check the frame and lay the arrays over the bytes.

        Raises:
            DamageError: When the bytes are no reverse log.
        """
        magic, count = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0)
        absent_at = _HEAD.size + 8 * (count + 1)
        keys_at = absent_at + (count + 7) // 8
        if magic != _MAGIC or len(data) < keys_at:
            raise DamageError("a reverse log cannot be read", bytes=len(data))
        view = memoryview(data)
        self._data = data
        self._count: int = count
        self._key_at = view[_HEAD.size : _HEAD.size + 4 * (count + 1)].cast("I")
        self._value_at = view[_HEAD.size + 4 * (count + 1) : absent_at].cast("I")
        self._absent = absent_at
        self._keys = keys_at
        self._values: int = keys_at + self._key_at[count]
        if len(data) != self._values + self._value_at[count]:
            raise DamageError("a reverse log is cut off", bytes=len(data))

    def __len__(self) -> int:
        """How many keys were overwritten."""
        return self._count

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # no slices
        """The key at that position."""
        if not 0 <= index < self._count:
            raise IndexError(index)
        start = self._keys
        return self._data[start + self._key_at[index] : start + self._key_at[index + 1]]

    def old(self, index: int) -> bytes | None:
        """The value that the key at that position had before; None when it had none."""
        if self._data[self._absent + (index >> 3)] >> (index & 7) & 1:
            return None
        start = self._values
        return self._data[start + self._value_at[index] : start + self._value_at[index + 1]]

    def position(self, key: bytes) -> int:
        """The position of the key; -1 when it was not overwritten."""
        index = bisect_left(self, key)
        return index if index < self._count and self[index] == key else -1

    def keys(self) -> list[bytes]:
        """All keys, sorted."""
        data, base, at = self._data, self._keys, self._key_at.tolist()
        return [data[base + start : base + end] for start, end in pairwise(at)]

    def olds(self) -> list[bytes | None]:
        """The old values, in the order of the keys."""
        data, base, at = self._data, self._values, self._value_at.tolist()
        values: list[bytes | None] = [
            data[base + start : base + end] for start, end in pairwise(at)
        ]
        bitmap = np.frombuffer(data, np.uint8, (self._count + 7) // 8, self._absent)
        absent = np.unpackbits(bitmap, count=self._count, bitorder="little")
        for index in np.flatnonzero(absent).tolist():
            values[index] = None
        return values

    def items(self) -> Iterator[tuple[bytes, bytes | None]]:
        """(key, old value) in key order."""
        return zip(self.keys(), self.olds(), strict=True)
