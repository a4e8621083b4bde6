"""Ranks of a whole map or set, whose entries may lie in all vnodes.

Each vnode knows the ranks of its own. A rank among all is the sum of those in each; an entry of a
rank is found by halving: a seat in the middle of what may still come before it, or not, is looked
for in each vnode, until few are left.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from atoll.codec.keys.elements import decode_element
from atoll.pstate.ranked.group import Group, Seat, group_in
from atoll.pstate.ranked.layout import RankedMap
from atoll.schema import Map

if TYPE_CHECKING:
    from atoll.pstate.navigate.places import Place, Places

_FEW = 512
_FEW_EACH = 16
"""Entries, in all and for each vnode, that may rather be walked over than halved."""


class _Entry(NamedTuple):
    """A seat, and where it is; sorted by seat."""

    seat: bytes
    vnode: int
    element: int


class Ranking:
    """The ranks of the entries at a place in a PState."""

    def __init__(self, places: Places, place: Place) -> None:
        spec = places.spec
        ranks = spec.ranks
        assert ranks is not None, "the path was held against the schema"
        self._places = places
        self._place = place
        self._ranks = ranks
        self.ranked: RankedMap = ranks.maps[place.position]
        vnodes = range(spec.vnode_count) if place.vnode is None else (place.vnode,)
        self._groups: list[Group] = [
            group_in(places.reader, ranks, vnode, place.prefix) for vnode in vnodes
        ]

    @property
    def size(self) -> int:
        """How many entries have a rank."""
        return sum(group.before(None) for group in self._groups)

    def between(self, start: int, stop: int | None) -> Iterator[Any]:
        """The entries from one rank up to another, counted from the end when negative."""
        if start < 0 or (stop is not None and stop < 0):
            size = self.size
            start = max(start + size, 0) if start < 0 else start
            stop = max(stop + size, 0) if stop is not None and stop < 0 else stop
        wanted = None if stop is None else stop - start
        if wanted is not None and wanted <= 0:
            return iter(())
        return self._read(self._from(start, wanted))

    def of_key(self, key: Any) -> int | None:
        """The rank of a key; None where it has none."""
        stored, vnode = self._places.through(self._place, key)
        vnodes = [group.vnode for group in self._groups] if vnode is None else [vnode]
        values = [self._places.reader.get(each, stored) for each in vnodes]
        value = next((each for each in values if each is not None), None)
        seat = next(iter(self._ranks.seats([stored], [value])[0]), None)
        if seat is None:
            return None
        own = seat[len(self._place.prefix) :]
        return sum(group.before(own) for group in self._groups)

    def quantile(self, share: float) -> Iterator[Any]:
        """The entry that a share of all, itself counted, does not lie behind."""
        rank = max(math.ceil(share * self.size) - 1, 0)
        return self.between(rank, rank + 1)

    def beside(self, values: Sequence[object], *, after: bool) -> Iterator[Any]:
        """The entries before an order, or after it, in the order of ranks."""
        bound = self.ranked.bound(values, after=after)
        low, high = (bound, None) if after else (None, bound)
        runs = [_entries(group, group.walk(low, high, None)) for group in self._groups]
        return self._read(heapq.merge(*runs))

    # -- inside -------------------------------------------------------------------------------

    def _from(self, start: int, wanted: int | None) -> Iterator[_Entry]:
        lows = self._lows(start)
        left = start - sum(lows)
        most = None if wanted is None else left + wanted
        runs = []
        for group, low in zip(self._groups, lows, strict=True):
            first = b"" if low == 0 else group.at(low)
            if first is not None:
                runs.append(_entries(group, group.walk(first, None, most)))
        merged = runs[0] if len(runs) == 1 else heapq.merge(*runs)
        return islice(merged, left, most)

    def _lows(self, rank: int) -> list[int]:
        """How many entries of each vnode are surely before a rank; a few less than all."""
        lows = [0] * len(self._groups)
        if len(self._groups) == 1:
            return [rank]
        if rank <= _FEW:
            return lows
        highs = [group.before(None) for group in self._groups]
        few = max(_FEW, _FEW_EACH * len(lows))
        while sum(highs) - sum(lows) > few:
            spans = [high - low for low, high in zip(lows, highs, strict=True)]
            widest = spans.index(max(spans))
            pivot = self._groups[widest].at(lows[widest] + spans[widest] // 2)
            assert pivot is not None, "a rank between two others has a seat"
            ranks = [group.before(pivot) for group in self._groups]
            if sum(ranks) <= rank:
                lows = list(map(max, lows, ranks))
            else:
                highs = list(map(min, highs, ranks))
        return lows

    def _read(self, entries: Iterator[_Entry]) -> Iterator[Any]:
        """What a path sees of them: pairs of key and value, or elements."""
        places, prefix, node = self._places, self._place.prefix, self._place.node
        for seat, vnode, length in entries:
            encoded = seat[-length:]
            element, _ = decode_element(encoded, 0)
            if not isinstance(node, Map):
                yield element
                continue
            below = type(self._place)(
                node.value, self._place.position, prefix + encoded, vnode, by_key=True
            )
            yield element, places.read(below)


def _entries(group: Group, seats: Iterator[Seat]) -> Iterator[_Entry]:
    return (_Entry(seat.code, group.vnode, seat.element) for seat in seats)
