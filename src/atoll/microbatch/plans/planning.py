"""Which records a microbatch takes. Pure arithmetic over offsets."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from atoll.errors import DamageError
from atoll.microbatch.commits.objects import Commit, Plan, Ranges
from atoll.microbatch.plans.fitting import Sizes, fit

_Reading = TypeVar("_Reading", Plan, Commit)


def padded(progress: list[int], count: int) -> list[int]:
    """How far each of so many depot partitions was read: those that were added meanwhile not yet.

    Only logs that others keep get more of them.
    """
    return [*progress, *([0] * (count - len(progress)))]


def lost_records(progress: dict[str, list[int]], ends: dict[str, list[int]]) -> DamageError | None:
    """The error when a depot ends before what was processed of it: its disk has lost records.

    Going on would skip as many of the records that are appended next.
    """
    for depot, depot_ends in ends.items():
        known = padded(progress[depot], len(depot_ends))
        for partition, (done, end) in enumerate(zip(known, depot_ends, strict=True)):
            if end < done:
                return DamageError(
                    f"depot {depot!r} has lost records: it ends at {end}, and {done} are processed",
                    hint="restore the depot's segments from a backup, or roll back and append "
                    "again what is missing",
                    depot=depot,
                    depot_partition=partition,
                )
    return None


def choose_ranges(
    progress: dict[str, list[int]],
    starts: dict[str, list[int]],
    ends: dict[str, list[int]],
    records_max: dict[str, int],
) -> Ranges:
    """For each depot partition the offsets to read: from the progress, at most so many.

    A depot partition whose oldest records were dropped by retention is read from what is left.
    """
    ranges: Ranges = {}
    for depot, depot_ends in ends.items():
        done = padded(progress[depot], len(depot_ends))
        assert len(done) == len(depot_ends), f"depot {depot} has another number of partitions"
        ranges[depot] = []
        for partition, end in enumerate(depot_ends):
            start = max(done[partition], starts[depot][partition])
            ranges[depot].append((start, min(max(end, start), start + records_max[depot])))
    return ranges


def with_unread(made: _Reading, progress: dict[str, list[int]]) -> _Reading:
    """A plan or commit with all that the topology reads: nothing of what it does not name.

    A version of the topology that read less may have made it.

    Args:
        made: As it was made.
        progress: How far what the topology reads now was read before it, by depot or tick.
    """
    unread = {
        name: [(at, at) for at in ends]
        for name, ends in progress.items()
        if name not in made.ranges
    }
    return msgspec.structs.replace(made, ranges={**made.ranges, **unread}) if unread else made


def cut(plan: Plan, sizes: Sizes, records_max: dict[str, int], bytes_max: int) -> Plan | None:
    """A smaller revision of a plan that keeps to the limits; None when it does so as it is.

    It takes the beginnings of the plan's ranges and leaves the rest to the next microbatch. A plan
    of one record is as small as can be.

    Args:
        plan: The plan as it stands.
        sizes: What its ranges hold.
        records_max: For each depot the most records of one depot partition.
        bytes_max: The most bytes of all.
    """
    ranges: Ranges = {
        depot: [(start, min(end, start + records_max.get(depot, end))) for start, end in parts]
        for depot, parts in plan.ranges.items()
    }
    ranges = fit(ranges, sizes, bytes_max, plan.id)
    if ranges == plan.ranges:
        return None
    ends = {depot: [end for _, end in plan.ranges[depot]] for depot in sizes}
    behind = sorted({*plan.behind, *left_behind(ranges, ends)})
    return msgspec.structs.replace(plan, revision=plan.revision + 1, ranges=ranges, behind=behind)


def partition_name(depot: str, partition: int) -> str:
    """What plans and commits call a depot partition: ``bids/3``."""
    return f"{depot}/{partition}"


def left_behind(ranges: Ranges, ends: dict[str, list[int]]) -> list[str]:
    """The depot partitions that have more records than the ranges: ``bids/3``."""
    return [
        partition_name(depot, partition)
        for depot, depot_ends in sorted(ends.items())
        for partition, end in enumerate(depot_ends)
        if ranges[depot][partition][1] < end
    ]
