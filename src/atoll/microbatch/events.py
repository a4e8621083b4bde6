"""What happens to a coordinator, what it knows, and what it asks for. Plain frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from atoll.microbatch.checkpoints import Checkpoints
from atoll.microbatch.objects import Commit, Plan
from atoll.microbatch.options import Options
from atoll.microbatch.outcome import ActorFailure, Outcome

__all__ = [
    "AttemptFailed",
    "AttemptSucceeded",
    "Command",
    "CommitCreated",
    "CommitRefused",
    "Condition",
    "CreateCommit",
    "CreatePlan",
    "Event",
    "Halt",
    "Pause",
    "PlanReady",
    "Publish",
    "Published",
    "Resume",
    "Retry",
    "RunAttempt",
    "State",
    "Step",
    "Tidied",
    "Tidy",
    "Wait",
    "Wake",
]


class Step(enum.IntEnum):
    """Where a microbatch is; 1 to 5 are the protocol's numbered steps."""

    IDLE = 0
    PRIME = 1
    PROCESS = 2
    COMMIT = 3
    PUBLISH = 4
    TIDY = 5


class Condition(enum.StrEnum):
    """Whether a topology goes on."""

    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class State:
    """All that the coordinator knows."""

    epoch: int
    options: Options
    last: Commit
    vnode_counts: dict[str, int]
    """For each PState of the topology, how many vnodes it has."""
    checkpoints: Checkpoints
    step: Step = Step.IDLE
    condition: Condition = Condition.RUNNING
    version: int = 0
    plan: Plan | None = None
    failures: int = 0
    failure: ActorFailure | None = None
    commit: Commit | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """Time to look for work; ``ends`` are the depots' end offsets."""

    starts: dict[str, list[int]]
    ends: dict[str, list[int]]
    now_ms: int


@dataclass(frozen=True, slots=True)
class PlanReady:
    """The plan object exists: just made, or left by an earlier attempt."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class AttemptSucceeded:
    """All jobs of the attempt ran."""

    outcome: Outcome
    now_ms: int


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """The attempt ended without a result."""

    failure: ActorFailure


@dataclass(frozen=True, slots=True)
class Retry:
    """The delay after a failed attempt is over."""


@dataclass(frozen=True, slots=True)
class CommitCreated:
    """The commit object is durable: the one just asked for, or an earlier one of this life."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """Another coordinator made this commit, or fenced this epoch."""

    failure: ActorFailure


@dataclass(frozen=True, slots=True)
class Published:
    """Readers see the commit."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What nobody needs any more is gone."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The user wants no further microbatch after the running one."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The user wants the topology to go on, also after it failed."""


Event = (
    Wake
    | PlanReady
    | AttemptSucceeded
    | AttemptFailed
    | Retry
    | CommitCreated
    | CommitRefused
    | Published
    | Tidied
    | Pause
    | Resume
)


@dataclass(frozen=True, slots=True)
class CreatePlan:
    """Create plan object ``plan.id``, or find the one that is there; answer PlanReady."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """Run the topology's jobs over the plan's ranges."""

    plan: Plan
    version: int


@dataclass(frozen=True, slots=True)
class CreateCommit:
    """Create the commit object."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class Publish:
    """Move the external view to the commit; tell waiters."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class Tidy:
    """Drop what nobody needs any more."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for so long, unless something happens."""

    delay_ms: int | None
    """None: until an event comes."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop for good: another coordinator owns the topology."""

    failure: ActorFailure


Command = CreatePlan | RunAttempt | CreateCommit | Publish | Tidy | Wait | Halt
