"""Which records a microbatch takes. Pure arithmetic over offsets."""

from __future__ import annotations

from atoll.microbatch.objects import Ranges

__all__ = ["choose_ranges"]


def choose_ranges(
    progress: dict[str, list[int]],
    starts: dict[str, list[int]],
    ends: dict[str, list[int]],
    records_max: int,
) -> Ranges:
    """For each depot partition the offsets to read: from the progress, ``records_max`` at most.

    A depot partition whose oldest records were dropped by retention is read from what is left.
    """
    ranges: Ranges = {}
    for depot, depot_ends in ends.items():
        done = progress[depot]
        assert len(done) == len(depot_ends), f"depot {depot} has another number of partitions"
        ranges[depot] = []
        for partition, end in enumerate(depot_ends):
            start = max(done[partition], starts[depot][partition])
            ranges[depot].append((start, min(max(end, start), start + records_max)))
    return ranges
