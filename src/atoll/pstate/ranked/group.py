"""The ranked entries of one group in one vnode: which seat has a rank, and which rank a seat.

From the beginning of a group a walk goes up a level wherever a block of it begins, and down again
to where it wants to be, adding counts; it reads about as many entries at each level as a block has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple, Protocol

from atoll.codec.keys.elements import successor
from atoll.pstate.ranked.layout import HEADS, LEVELS, MARK, PAGE, Ranks
from atoll.pstate.reader import Reader

_BLOCKS_MAX = 256
"""A group of no more blocks has them read once, and each rank from there."""


class Seat(NamedTuple):
    """A seat of a group, without the group: its order, then the key element."""

    code: bytes
    element: int
    """How many of its bytes are the key element."""


class Group(Protocol):
    """What is asked of the ranked entries of a group in one vnode."""

    vnode: int

    def before(self, seat: bytes | None) -> int:
        """How many seats are before one; how many there are where it is None."""

    def at(self, rank: int) -> bytes | None:
        """The seat of a rank; None where there are not so many."""

    def walk(
        self, low: bytes | None, high: bytes | None, limit: int | None, *, reverse: bool = False
    ) -> Iterator[Seat]:
        """The seats of a range in the order of their ranks, or backwards."""


def group_in(reader: Reader, ranks: Ranks, vnode: int, prefix: bytes) -> Group:
    """The group whose entries begin with a prefix."""
    if reader.get(vnode, MARK) == ranks.mark:
        return KeptGroup(reader, vnode, prefix)
    return SortedGroup(reader, ranks, vnode, prefix)


class SortedGroup:
    """A group of a store that knows nothing of ranks: its entries are read, and sorted."""

    def __init__(self, reader: Reader, ranks: Ranks, vnode: int, prefix: bytes) -> None:
        self.vnode = vnode
        bounds = (prefix, successor(prefix)) if prefix else (None, None)
        entries = list(reader.scan(vnode, *bounds))
        (seats,) = ranks.seats([key for key, _ in entries], [value for _, value in entries])
        known = sorted(each for each in seats.items() if each[1].group == len(prefix))
        self._seats = [Seat(seat[len(prefix) :], ranked.element) for seat, ranked in known]
        self._codes = [each.code for each in self._seats]

    def before(self, seat: bytes | None) -> int:
        """How many seats are before one."""
        return len(self._codes) if seat is None else bisect_left(self._codes, seat)

    def at(self, rank: int) -> bytes | None:
        """The seat of a rank."""
        return self._codes[rank] if rank < len(self._codes) else None

    def walk(
        self, low: bytes | None, high: bytes | None, limit: int | None, *, reverse: bool = False
    ) -> Iterator[Seat]:
        """The seats of a range."""
        found = self._seats[self.before(low or b"") : self.before(high)]
        if reverse:
            found.reverse()
        return iter(found[:limit])


class _Blocks(NamedTuple):
    """Where blocks begin, the first one with the group; how many seats are before each, and all."""

    starts: list[bytes]
    before: list[int]


class KeptGroup:
    """A group whose ranks were kept with every write."""

    def __init__(self, reader: Reader, vnode: int, prefix: bytes) -> None:
        self.vnode = vnode
        self._reader = reader
        self._prefix = prefix

    @cached_property
    def _blocks(self) -> _Blocks | None:
        """All blocks of the first level; None where there are many."""
        blocks = list(self._entries(1, b"", None, limit=_BLOCKS_MAX + 1))
        if len(blocks) > _BLOCKS_MAX:
            return None
        starts = [b"", *(start for start, _ in blocks)]
        first = self._between(0, b"", starts[1] if blocks else None)
        counts = accumulate([first, *(count for _, count in blocks)])
        return _Blocks(starts, [0, *counts])

    def before(self, seat: bytes | None) -> int:
        """How many seats are before one."""
        blocks = self._blocks
        if blocks is None:
            return self._climb_before(seat)
        if seat is None:
            return blocks.before[-1]
        number = bisect_right(blocks.starts, seat) - 1
        return blocks.before[number] + self._between(0, blocks.starts[number], seat)

    def at(self, rank: int) -> bytes | None:
        """The seat of a rank."""
        blocks = self._blocks
        if blocks is None:
            return self._climb_at(rank)
        if rank >= blocks.before[-1]:
            return None
        number = bisect_right(blocks.before, rank) - 1
        left = rank - blocks.before[number]
        seats = self._entries(0, blocks.starts[number], None, limit=left + 1)
        return next(islice((seat for seat, _ in seats), left, None), None)

    def _climb_before(self, seat: bytes | None) -> int:
        low, level, count = b"", 0, 0
        while level + 1 < LEVELS:
            block = self._next_block(level + 1, low)
            if block is None or (seat is not None and block > seat):
                break
            count += self._between(level, low, block)
            low, level = block, level + 1
        for here in range(level, 0, -1):
            last = 0
            for start, counted in self._entries(here, low, None):
                if seat is not None and start > seat:
                    break
                count += last
                low, last = start, counted
        return count + self._between(0, low, seat)

    def _climb_at(self, rank: int) -> bytes | None:
        low, level, count = b"", 0, 0
        while level + 1 < LEVELS:
            block = self._next_block(level + 1, low)
            passed = 0 if block is None else self._between(level, low, block)
            if block is None or count + passed > rank:
                break
            count += passed
            low, level = block, level + 1
        for here in range(level, 0, -1):
            for start, counted in self._entries(here, low, None):
                low = start
                if count + counted > rank:
                    break
                count += counted
            else:
                return None
        for seat, _ in self._entries(0, low, None):
            if count == rank:
                return seat
            count += 1
        return None

    def walk(
        self, low: bytes | None, high: bytes | None, limit: int | None, *, reverse: bool = False
    ) -> Iterator[Seat]:
        """The seats of a range."""
        for seat, element in self._entries(0, low or b"", high, reverse=reverse, limit=limit):
            yield Seat(seat, element)

    def _next_block(self, level: int, low: bytes) -> bytes | None:
        return next((start for start, _ in self._entries(level, low, None, limit=1)), None)

    def _between(self, level: int, low: bytes, high: bytes | None) -> int:
        entries = self._entries(level, low, high)
        return sum(1 for _ in entries) if level == 0 else sum(count for _, count in entries)

    def _entries(
        self,
        level: int,
        low: bytes,
        high: bytes | None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, int]]:
        head = HEADS[level] + self._prefix
        start = head + low
        end = successor(head) if high is None else head + high
        pages = self._reader.scan(self.vnode, start, end, reverse=reverse, limit=limit)
        if limit is None and not reverse:
            pages = self._paged(start, end)
        for key, value in pages:
            yield key[len(head) :], int.from_bytes(value)

    def _paged(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A scan that reads a block at once: mostly no more is wanted."""
        while True:
            found = 0
            for key, value in self._reader.scan(self.vnode, start, end, limit=PAGE):
                yield key, value
                found, start = found + 1, key + b"\x00"
            if found < PAGE:
                return
