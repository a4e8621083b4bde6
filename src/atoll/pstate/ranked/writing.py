"""Writes of entries with what they change of ranks.

The seats of what was there go, those of what is there come; a block that seats came to or went
from counts that many more or less, and one that begins or ends is counted anew, from the blocks of
the level below. So a change touches a few entries of the store, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from atoll.codec.keys.elements import successor
from atoll.errors import DamageError
from atoll.pstate.ranked.layout import (
    HEADS,
    LEVELS,
    MARK,
    PAGE,
    Ranks,
    Seats,
    count_bytes,
    level_of,
)

_Values = Sequence[bytes | None]


class Store(Protocol):
    """What is asked of the writer that writes."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def scan(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range."""

    def put_plainly(
        self, keys: Sequence[bytes], values: _Values, olds: _Values | None = None
    ) -> None:
        """Set or remove entries, nothing beside them."""


class _Move(NamedTuple):
    """A seat that came or went."""

    seat: bytes
    group: bytes
    delta: int
    level: int


class _Block(NamedTuple):
    """What a block counts: all seats up to ``high``; or ``delta`` more than it did."""

    high: bytes
    delta: int
    anew: bool


def write_ranked(
    ranks: Ranks, store: Store, keys: Sequence[bytes], values: _Values, olds: _Values
) -> None:
    """Write entries, and what changes of ranks.

    Args:
        ranks: What is ranked.
        store: What is written.
        keys: Sorted and unique.
        values: New values; None removes.
        olds: The values before.
    """
    if store.get(MARK) == ranks.mark:
        before, now = ranks.seats(keys, olds, values)
        store.put_plainly(keys, values, olds)
    else:
        store.put_plainly(keys, values, olds)
        gone = [key for key, _ in store.scan(HEADS[0], MARK)]
        store.put_plainly(gone, [None] * len(gone))
        store.put_plainly([MARK], [ranks.mark])
        entries = list(store.scan())
        before = {}
        (now,) = ranks.seats([key for key, _ in entries], [value for _, value in entries])
    moves = sorted([*_moves(before, now, -1), *_moves(now, before, 1)])
    if moves:
        _move(store, moves, now)
        for level in range(1, LEVELS):
            if not _count(store, level, moves):
                return


def _moves(of: Seats, other: Seats, delta: int) -> Iterator[_Move]:
    for seat, (group, _) in of.items():
        if seat not in other:
            yield _Move(seat, seat[:group], delta, level_of(seat))


def _move(store: Store, moves: Sequence[_Move], now: Seats) -> None:
    """Take the seats away that went, with the blocks that begin there, and add the others."""
    for level in range(LEVELS):
        here = [move for move in moves if move.level >= level]
        if not here:
            return
        values = [
            None
            if move.delta < 0
            else count_bytes(now[move.seat].element)
            if level == 0
            else count_bytes(0)
            for move in here
        ]
        store.put_plainly([HEADS[level] + move.seat for move in here], values)


def _count(store: Store, level: int, moves: Sequence[_Move]) -> bool:
    """Count the blocks of a level that seats came to or went from; False where there are none."""
    blocks = _blocks(store, level, moves)
    if not blocks:
        return False  # nor at a higher level, whose blocks are of this one, too
    keys = sorted(blocks)
    counts = [_counted(store, level, start, blocks[start]) for start in keys]
    store.put_plainly([HEADS[level] + start for start in keys], list(map(count_bytes, counts)))
    return True


def _blocks(store: Store, level: int, moves: Sequence[_Move]) -> dict[bytes, _Block]:
    found: dict[bytes, _Block] = {}
    seats = [move.seat for move in moves]
    at = 0
    while at < len(moves):
        move = moves[at]
        start = _last(store, level, move.seat + b"\x00")
        following = _first(store, level, move.seat + b"\x00")
        stop = len(moves) if following is None else bisect_left(seats, following, at)
        group = move.group
        if start is not None and start.startswith(group):
            own = [each for each in moves[at:stop] if each.group == group]
            end = successor(group)
            high = end if following is None else min(following, end)
            anew = any(each.level >= level for each in own)
            found[start] = _Block(high, sum(each.delta for each in own), anew)
            if start == move.seat:
                before = _last(store, level, start)
                if before is not None and before.startswith(group):
                    found[before] = _Block(start, 0, anew=True)
        at = max(stop, at + 1)
    return found


def _counted(store: Store, level: int, start: bytes, block: _Block) -> int:
    if block.anew:
        below = HEADS[level - 1]
        entries = _block_entries(store, below + start, below + block.high)
        if level == 1:
            return sum(1 for _ in entries)
        return sum(int.from_bytes(count) for _, count in entries)
    count = int.from_bytes(store.get(HEADS[level] + start) or b"") + block.delta
    if count < 1:
        raise DamageError("a vnode store ranks fewer entries than it had")
    return count


def _block_entries(store: Store, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a range that is mostly not longer than a block, without reading on."""
    found = PAGE
    while found == PAGE:
        found = 0
        for key, value in store.scan(low, high, limit=PAGE):
            yield key, value
            found, low = found + 1, key + b"\x00"


def _first(store: Store, level: int, low: bytes) -> bytes | None:
    """The first block that begins at a seat or behind it."""
    for key, _ in store.scan(HEADS[level] + low, HEADS[level] + b"\xff", limit=1):
        return key[len(HEADS[level]) :]
    return None


def _last(store: Store, level: int, high: bytes) -> bytes | None:
    """The last block that begins before a seat."""
    head = HEADS[level]
    for key, _ in store.scan(head, head + high, reverse=True, limit=1):
        return key[len(head) :]
    return None
