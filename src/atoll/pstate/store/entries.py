"""The entries of one vnode inside one transaction: sorted keys of any length, and their values.

LMDB's keys end at 511 bytes; users' keys do not. A *logical* key of more than 480 bytes is
stored under its first 480 bytes, the byte 0xFF and a 16-byte digest, and its value carries the
rest of the key. Such stored keys are 497 bytes long and no others are, so nothing else needs a
mark. Keys that share their first 480 bytes stand together in the store, out of order among
themselves; scans put each such group in order before they hand it on (a group is held in memory).

Keys and values outside this module are always logical. Keys have at least one byte.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from atoll.codec.keys.elements import successor
from atoll.errors import DamageError

PLAIN_KEY_BYTES_MAX = 480
_LONG_KEY_BYTES = PLAIN_KEY_BYTES_MAX + 1 + 16
_TAIL_LENGTH = struct.Struct("<I")
_PAGE_ENTRIES = 1024

_Pair = tuple[bytes, bytes]


class Bounds(NamedTuple):
    """A range of logical keys: ``low`` included, ``high`` excluded, None for no bound."""

    low: bytes | None = None
    high: bytes | None = None
    reverse: bool = False


class Page(NamedTuple):
    """Some consecutive entries of a scan, in scan order.

    ``after`` resumes the scan behind them (a stored key); None when the range is exhausted.
    """

    pairs: list[_Pair]
    after: bytes | None


class Entries:
    """Reads and writes of the data table within one LMDB transaction.

    Args:
        transaction: An open transaction; a write transaction for the methods that write.
        table: The handle of the data table.
    """

    __slots__ = ("_cursor", "_get", "_table", "_transaction")

    def __init__(self, transaction: Any, table: Any) -> None:
        self._transaction = transaction
        self._table = table
        self._get = transaction.get
        self._cursor: Any = None

    def get(self, key: bytes) -> bytes | None:
        """The value of the key; None when it is absent."""
        if len(key) <= PLAIN_KEY_BYTES_MAX:
            value: bytes | None = self._get(key, None, self._table)
            return value
        return _unpack_long(key, self._get(_stored_key(key), None, self._table))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key; fastest when they are sorted."""
        if keys and max(map(len, keys)) > PLAIN_KEY_BYTES_MAX:
            return [self.get(key) for key in keys]
        get, table = self._get, self._table
        return [get(key, None, table) for key in keys]

    def put(self, key: bytes, value: bytes) -> None:
        """Set one entry."""
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key, value = _stored_key(key), _pack_long(key, value)
        self._transaction.put(key, value, db=self._table)

    def delete(self, key: bytes) -> None:
        """Remove one entry; an absent one is left so."""
        stored = key if len(key) <= PLAIN_KEY_BYTES_MAX else _stored_key(key)
        self._transaction.delete(stored, db=self._table)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set many entries, or remove those whose value is None; fastest when sorted."""
        if not keys:
            return
        if None in values:
            self._delete_many(keys, values)
            pairs: Iterable[tuple[bytes, Any]] = [
                pair for pair in zip(keys, values, strict=True) if pair[1] is not None
            ]
        else:
            pairs = zip(keys, values, strict=True)
        if max(map(len, keys)) > PLAIN_KEY_BYTES_MAX:
            pairs = _pack_all(pairs)
        if self._cursor is None:
            self._cursor = self._transaction.cursor(self._table)
        self._cursor.putmulti(pairs)

    def _delete_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        for key, value in zip(keys, values, strict=True):
            if value is None:
                self.delete(key)

    def clear(self) -> None:
        """Remove everything."""
        self._cursor = None
        self._transaction.drop(self._table, delete=False)

    def page(self, bounds: Bounds, after: bytes | None, limit: int = _PAGE_ENTRIES) -> Page:
        """The next entries of a scan: about ``limit`` of them, at least one unless exhausted."""
        while True:
            raw, last = self._read(bounds, after, limit)
            pairs, finished = _cut(_logical(raw, reverse=bounds.reverse), bounds)
            after = None if finished else last
            if pairs or after is None:
                return Page(pairs, after)

    def scan(self, bounds: Bounds) -> Iterator[_Pair]:
        """All entries of a range, read page by page.

        Entries that are written while the scan runs may or may not be seen.
        """
        after: bytes | None = None
        while True:
            pairs, after = self.page(bounds, after)
            yield from pairs
            if after is None:
                return

    def some(self, bounds: Bounds, limit: int) -> Iterator[_Pair]:
        """The first entries of a range; no more are read."""
        after: bytes | None = None
        while limit > 0:
            pairs, after = self.page(bounds, after, limit)
            yield from pairs[:limit]
            limit -= len(pairs)
            if after is None:
                return

    def under(self, prefixes: Sequence[bytes], longer: int) -> list[list[_Pair]]:
        """The entries whose keys begin with each prefix, in order, without reading beyond them.

        Args:
            prefixes: Sorted; none begins with another.
            longer: By how many bytes at most the keys are longer than their prefix.
        """
        if prefixes and max(map(len, prefixes)) + longer > PLAIN_KEY_BYTES_MAX:
            return [list(self.scan(Bounds(each, successor(each)))) for each in prefixes]
        cursor = self._transaction.cursor(self._table)
        found: list[list[_Pair]] = []
        here: bytes | None = b""
        for prefix in prefixes:
            pairs: list[_Pair] = []
            if here is not None and here < prefix:
                here = cursor.key() if cursor.set_range(prefix) else None
            while here is not None and here.startswith(prefix):
                pairs.append(cursor.item())
                here = cursor.key() if cursor.next() else None
            found.append(pairs)
        return found

    def _read(
        self, bounds: Bounds, after: bytes | None, limit: int
    ) -> tuple[list[_Pair], bytes | None]:
        """Stored entries from a position on, never ending inside a group of long keys."""
        cursor = self._transaction.cursor(self._table)
        if bounds.reverse:
            found = _seek_backward(cursor, bounds.high, after)
            walk = cursor.iterprev()
        else:
            found = _seek_forward(cursor, bounds.low, after)
            walk = cursor.iternext()
        if not found:
            return [], None
        raw: list[_Pair] = list(islice(walk, limit))
        if len(raw) < limit:
            return raw, None
        if len(raw[-1][0]) == _LONG_KEY_BYTES:
            group = raw[-1][0][: PLAIN_KEY_BYTES_MAX + 1]
            for pair in walk:
                if len(pair[0]) != _LONG_KEY_BYTES or not pair[0].startswith(group):
                    break
                raw.append(pair)
        return raw, raw[-1][0]


def _seek_forward(cursor: Any, low: bytes | None, after: bytes | None) -> bool:
    if after is not None:
        found: bool = cursor.set_range(after)
        return bool(cursor.next()) if found and cursor.key() == after else found
    if not low:
        return bool(cursor.first())
    return bool(cursor.set_range(low[:PLAIN_KEY_BYTES_MAX]))


def _seek_backward(cursor: Any, high: bytes | None, after: bytes | None) -> bool:
    if after is not None:
        end = after
    elif high is None:
        return bool(cursor.last())
    elif len(high) <= PLAIN_KEY_BYTES_MAX:
        if not high:
            return False
        end = high
    else:
        end = high[:PLAIN_KEY_BYTES_MAX] + b"\xff" * 30  # behind every key of the group
    return bool(cursor.prev() if cursor.set_range(end) else cursor.last())


def _cut(pairs: list[_Pair], bounds: Bounds) -> tuple[list[_Pair], bool]:
    """Drop what lies outside the bounds; True when the far bound was reached."""
    if not pairs:
        return pairs, False
    if bounds.reverse:
        pairs.reverse()
    low, high = 0, len(pairs)
    below = bounds.low is not None and pairs[0][0] < bounds.low
    above = bounds.high is not None and pairs[-1][0] >= bounds.high
    if below:
        low = bisect_left(pairs, bounds.low, key=_key_of)  # type: ignore[type-var]
    if above:
        high = bisect_left(pairs, bounds.high, key=_key_of)  # type: ignore[type-var]
    kept = pairs[low:high] if below or above else pairs
    if bounds.reverse:
        kept.reverse()
    return kept, below if bounds.reverse else above


def _key_of(pair: _Pair) -> bytes:
    return pair[0]


def _logical(raw: list[_Pair], *, reverse: bool) -> list[_Pair]:
    """Stored entries as logical ones, every group of long keys in order."""
    if not any(len(stored) == _LONG_KEY_BYTES for stored, _ in raw):
        return raw
    pairs: list[_Pair] = []
    group: list[_Pair] = []
    prefix = b""
    for stored, value in raw:
        long = len(stored) == _LONG_KEY_BYTES
        if group and not (long and stored.startswith(prefix)):
            pairs.extend(sorted(group, reverse=reverse))
            group = []
        if long:
            prefix = stored[: PLAIN_KEY_BYTES_MAX + 1]
            tail_end = _TAIL_LENGTH.size + _TAIL_LENGTH.unpack_from(value)[0]
            group.append((prefix[:-1] + value[_TAIL_LENGTH.size : tail_end], value[tail_end:]))
        else:
            pairs.append((stored, value))
    pairs.extend(sorted(group, reverse=reverse))
    return pairs


def _stored_key(key: bytes) -> bytes:
    digest = hashlib.blake2b(key, digest_size=16).digest()
    return b"%b\xff%b" % (key[:PLAIN_KEY_BYTES_MAX], digest)


def _pack_long(key: bytes, value: bytes) -> bytes:
    tail = key[PLAIN_KEY_BYTES_MAX:]
    return b"".join((_TAIL_LENGTH.pack(len(tail)), tail, value))


def _pack_all(pairs: Iterable[tuple[bytes, bytes]]) -> list[_Pair]:
    return [
        pair if len(pair[0]) <= PLAIN_KEY_BYTES_MAX else (_stored_key(pair[0]), _pack_long(*pair))
        for pair in pairs
    ]


def _unpack_long(key: bytes, packed: bytes | None) -> bytes | None:
    if packed is None:
        return None
    tail_end = _TAIL_LENGTH.size + _TAIL_LENGTH.unpack_from(packed)[0]
    if packed[_TAIL_LENGTH.size : tail_end] != key[PLAIN_KEY_BYTES_MAX:]:
        raise DamageError("a vnode store holds another key under the digest of this one")
    return packed[tail_end:]
