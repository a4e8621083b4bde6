"""How much of what there is to read fits into one microbatch. Pure arithmetic over sizes.

A limit of bytes holds for all depot partitions of a microbatch together, since what a task needs
in memory grows with the sum. Each partition gets an equal share, and those that need less leave
the rest to the others, so that no partition waits for another one's backlog. Bytes are counted as
depots store records, which is what they take in a task's memory: neither compressed nor encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atoll.microbatch.commits.objects import Ranges

Run = tuple[int, int]
"""Records that follow each other: the offset after the last of them, and the bytes of all."""

Sizes = Mapping[str, Sequence[Sequence[Run]]]
"""For each depot, for each depot partition, the runs of a range from its beginning on."""

_Place = tuple[str, int]


def total_bytes(sizes: Sizes) -> int:
    """The bytes of all runs."""
    return sum(size for parts in sizes.values() for runs in parts for _, size in runs)


def fit(ranges: Ranges, sizes: Sizes, bytes_max: int, turn: int) -> Ranges:
    """The longest beginnings of ranges that take no more than so many bytes together.

    Where nothing fits, one record is taken, however fat: a microbatch that reads nothing although
    there is something would be made for ever.

    Args:
        ranges: Where to read, at most.
        sizes: What is in them. Of a depot without sizes nothing is known, and all is taken.
        bytes_max: The limit.
        turn: Rises from one microbatch to the next: which depot partition comes first where there
            is less room than partitions have need of.
    """
    runs = _known(ranges, sizes)
    if sum(size for each in runs.values() for _, size in each) <= bytes_max:
        return ranges
    share = _share([sum(size for _, size in each) for each in runs.values()], bytes_max)
    taken = {place: _prefix(_start(ranges, place), each, share) for place, each in runs.items()}
    left = bytes_max - sum(size for _, size in taken.values())
    places = sorted(place for place, each in runs.items() if each)
    for place in (*places[turn % len(places) :], *places[: turn % len(places)]):
        _, size = taken[place]
        taken[place] = _prefix(_start(ranges, place), runs[place], size + left)
        left -= taken[place][1] - size
    if all(end == _start(ranges, place) for place, (end, _) in taken.items()):
        first = places[turn % len(places)]
        taken[first] = (_start(ranges, first) + 1, 0)
    return {
        depot: [
            (start, taken[depot, index][0] if (depot, index) in taken else end)
            for index, (start, end) in enumerate(parts)
        ]
        for depot, parts in ranges.items()
    }


def _known(ranges: Ranges, sizes: Sizes) -> dict[_Place, list[Run]]:
    """The runs of each range that has any, cut off at its end."""
    found = {}
    for depot, parts in sizes.items():
        for index, runs in enumerate(parts):
            start, end = ranges[depot][index]
            cut, at = [], start
            for until, size in runs:
                if at < end:
                    rows = until - at
                    kept = min(until, end) - at
                    cut.append((at + kept, -(-size * kept // rows)))
                at = until
            if cut:
                found[depot, index] = cut
    return found


def _start(ranges: Ranges, place: _Place) -> int:
    depot, index = place
    return ranges[depot][index][0]


def _share(needs: Sequence[int], most: int) -> int:
    """How much each may take so that all take no more than ``most``: who needs less, leaves it."""
    left = most
    for done, need in enumerate(sorted(needs)):
        share = left // (len(needs) - done)
        if need > share:
            return share
        left -= need
    return most


def _prefix(start: int, runs: Sequence[Run], most: int) -> Run:
    """How far the records reach that take no more than so many bytes, and how many they take."""
    at, total = start, 0
    for end, size in runs:
        if total + size > most:
            rows = (most - total) * (end - at) // size
            return at + rows, total + -(-size * rows // (end - at))
        at, total = end, total + size
    return at, total
