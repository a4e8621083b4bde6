"""How time goes on from one microbatch to the next. Pure.

A commit says how far time is; the plan of the next microbatch fixes what it sees of it, so that
every attempt sees the same. Rows that a microbatch reads move the watermarks of the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from atoll.microbatch.commits.objects import Clocks, Plan, Ranges, pack_times, unpack_times
from atoll.microbatch.outcome import Outcome
from atoll.topology.times import NEVER, Clock


def tick_ranges(ticks: Mapping[str, int], progress: Mapping[str, list[int]], now_ms: int) -> Ranges:
    """For each tick the record to read: the newest if it has not been read, never an older one.

    Ticks are numbered by how often they fit into the time since 1970.

    Args:
        ticks: By name how many milliseconds are between two.
        progress: By name the number of the last one read, or the first not to wait for.
        now_ms: Processing time of the microbatch.
    """
    ranges: Ranges = {}
    for name, every_ms in ticks.items():
        (done,) = progress[name]
        number = now_ms // every_ms
        ranges[name] = [(number - 1, number) if number > done else (done, done)]
    return ranges


def timed(plan: Plan, last: Clocks, clocks: Mapping[str, Clock]) -> Plan:
    """The plan with what time it is, and what is due then.

    Args:
        plan: Planned at a time that is not before that of the commit.
        last: What the commit before says of time.
        clocks: For each PState of a timed step what it goes by.
    """
    plan = msgspec.structs.replace(
        plan,
        watermarks=last.watermarks,
        watermarks_before=last.used,
    )
    return msgspec.structs.replace(plan, due=due_vnodes(plan, last, clocks))


def due_vnodes(plan: Plan, last: Clocks, clocks: Mapping[str, Clock]) -> dict[str, list[int]]:
    """For each PState of a timed step the vnodes in which something is due at the plan's time."""
    due = {}
    for pstate, packed in last.agenda.items():
        shown = plan.times.of(clocks[pstate]) if pstate in clocks else None
        if shown is None:
            continue
        vnodes = [vnode for vnode, at in enumerate(unpack_times(packed)) if at <= shown]
        if vnodes:
            due[pstate] = vnodes
    return due


def clocks_after(
    last: Clocks, plan: Plan, outcome: Outcome, vnode_counts: Mapping[str, int]
) -> Clocks:
    """What the commit of a plan says of time. Watermarks never fall."""
    watermarks = dict(last.watermarks)
    reached = dict(last.reached)
    for name, parts in outcome.watermarks().items():
        before = reached.get(name, {})
        reached[name] = before | {
            part: max(millis, before.get(part, millis)) for part, millis in parts.items()
        }
    for name, parts in reached.items():
        millis = _over_parts(parts, plan.behind)
        watermarks[name] = max(millis, watermarks.get(name, millis))
    dropped = dict(last.dropped)
    for name, count in outcome.dropped().items():
        dropped[name] = dropped.get(name, 0) + count
    agenda = dict(last.agenda)
    for pstate, vnode_count in vnode_counts.items():
        looked_at = outcome.agenda(pstate)
        if looked_at:
            packed = agenda.get(pstate)
            times = [NEVER] * vnode_count if packed is None else unpack_times(packed)
            for vnode, millis in looked_at.items():
                times[vnode] = millis
            agenda[pstate] = pack_times(times)
    return Clocks(plan.planned_at_ms, watermarks, reached, plan.watermarks, dropped, agenda)


def _over_parts(reached: Mapping[str, int], behind: Collection[str]) -> int:
    """How far a watermark is by what its depot partitions have reached.

    Depot partitions are not read side by side in event time: while a backlog is worked off, one
    may be hours ahead of another. So those with records waiting hold it back to the slowest of
    them. Where nothing waits, the highest of all counts: a partition that nothing is appended to
    holds nothing back.
    """
    waiting = [millis for part, millis in reached.items() if part in behind]
    return min(waiting) if waiting else max(reached.values())
