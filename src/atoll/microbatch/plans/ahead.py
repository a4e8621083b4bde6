"""What the microbatch after the one that commits is expected to read. Pure.

A plan is made when the microbatch before it has committed, and by what is known then. Whoever
wants to read before that has to guess. The guess is made of what a plan is made of, so it comes
true unless something happens in between. It is made only where there is more to read than the next
microbatch takes: what is appended meanwhile then changes nothing of it. Where there is less, the
plan would take that in, and a guess would be wrong wherever it could help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.microbatch.commits.objects import Commit, Plan, Ranges
from atoll.microbatch.plans.cutting import bytes_max, grown
from atoll.microbatch.plans.fitting import fit
from atoll.microbatch.plans.planning import choose_ranges, left_behind, lost_records
from atoll.microbatch.plans.timekeeping import timed

if TYPE_CHECKING:
    from atoll.microbatch.control.options import Options
    from atoll.microbatch.events import State, Wake


def to_read(last: Commit, seen: Wake, options: Options, room: int) -> Ranges:
    """What a microbatch that follows a commit takes of its depots.

    Args:
        last: The commit.
        seen: What the depots hold.
        options: Of the topology.
        room: How many bytes a microbatch takes although the options allow more; 0 for no less.
    """
    limit = options.records_max(seen.ends)
    ranges = choose_ranges(last.ends(), seen.starts, seen.ends, limit)
    return fit(ranges, seen.sizes, bytes_max(room, options), last.id)


def expected(state: State, commit: Commit, seen: Wake) -> Plan | None:
    """What is to be read ahead while a commit is made; None when nothing is.

    Args:
        state: As it is before the commit.
        commit: The one about to be made.
        seen: What the depots hold now.
    """
    options, done = state.options, commit.ends()
    if not options.pipeline or lost_records(done, seen.ends) is not None:
        return None
    ranges = to_read(commit, seen, options, grown(state.room, options))
    if not left_behind(ranges, seen.ends):
        return None
    ranges |= {name: [(at, at) for at in done[name]] for name in state.ticks}
    plan = Plan(
        commit.id + 1, state.epoch, commit.clocks.now_ms, ranges, {}, timeline=commit.timeline
    )
    return timed(plan, commit.clocks, {})
