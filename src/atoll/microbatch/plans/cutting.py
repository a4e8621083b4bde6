"""When a plan that does not run is cut smaller. Pure.

An attempt that ran out of memory or into a limit of what a file, an array or a message may hold
would do so again: its plan is cut at once. One that took too long, or whose processes died, may
have met a busy machine or somebody's ``kill``: its plan is cut when that happens again. Each cut
leaves a quarter of the bytes, so that a plan of a gigabyte is down at one record after fifteen.
The plans that follow begin with as little, and grow again as long as they run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from atoll.errors import TooLargeError
from atoll.microbatch.commits.objects import Plan
from atoll.microbatch.control.options import Options
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.plans import planning
from atoll.microbatch.plans.fitting import Sizes, total_bytes

_FAILURES_BEFORE = {
    TooLargeError.code: 1,
    "E-PHASE-TIMEOUT": 2,
    "E-TASK-SILENT": 2,
    "E-WORKER-LOST": 2,
    "E-SPARK-LOST": 2,
}
"""By code, how many such failures of one plan show that it is too large."""

_LEFT = 4
"""Which part of the bytes a cut leaves: one in so many."""

_GROWS = 8
"""By which part of itself the room grows with each microbatch after a cut: one in so many."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """What is known of the size of the plan that stands."""

    weighed: bool = False
    """Whether it is known to keep to the limits of the options as they are now."""
    failed: int = 0
    """How many attempts at it failed as they would if it were too large."""
    why: ActorFailure | None = None
    """For which failure it is to be cut before the next attempt."""
    smallest: bool = False
    """Whether it turned out that it cannot be cut: a single record, beside ticks."""

    @property
    def due(self) -> bool:
        """Whether the plan must be weighed before the next attempt."""
        return not self.weighed or self.why is not None

    def after(self, failure: ActorFailure, plan: Plan | None) -> Cutting:
        """What is known when an attempt has failed."""
        before = _FAILURES_BEFORE.get(failure.code)
        if before is None or plan is None:
            return self
        failed = self.failed + 1
        cut = failed >= before and plan.records > 1 and not self.smallest
        return replace(self, failed=failed, why=failure if cut else self.why)


WEIGHED = Cutting(weighed=True)
"""Of a plan that was just made, or of none."""


def room_left(sizes: Sizes) -> int:
    """How many bytes a plan of such sizes is cut to when it did not run."""
    return max(1, total_bytes(sizes) // _LEFT)


def grown(room: int, options: Options) -> int:
    """The room for the next microbatch after one has committed; 0 when it is as before the cut.

    It grows slowly: to find out that it is too much costs an attempt, which may take minutes.
    """
    more = room + room // _GROWS + 1
    return more if room and more < options.microbatch_bytes_max else 0


def bytes_max(room: int, options: Options) -> int:
    """The most bytes of one microbatch."""
    return min(room or options.microbatch_bytes_max, options.microbatch_bytes_max)


def smaller(plan: Plan, sizes: Sizes, options: Options, room: int) -> Plan | None:
    """The revision that keeps to the options, and to the room.

    None when the plan is right as it is, or a single record that cannot be cut.
    """
    return planning.cut(plan, sizes, options.records_max(sizes), bytes_max(room, options))
