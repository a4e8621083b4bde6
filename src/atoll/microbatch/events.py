"""What happens to a coordinator, what it knows, and what it asks for. Plain frozen values."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.horizon import NO_HEADS, Heads
from atoll.microbatch.commits.objects import Clocks, Commit, Plan, PStateCommit, Reach
from atoll.microbatch.control.options import Options
from atoll.microbatch.control.pausing import Paused
from atoll.microbatch.outcome import ActorFailure, Outcome
from atoll.microbatch.plans.cutting import WEIGHED, Cutting
from atoll.microbatch.plans.fitting import Sizes
from atoll.microbatch.plans.migrating import Migrating
from atoll.placement.placement import NOWHERE, Placement
from atoll.topology.times import Clock


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
class Asked:
    """The requests for a checkpoint: how many came, and which of them were answered."""

    came: int = 0
    planned: int = 0
    """How many the running plan answers."""
    answered: int = 0
    commit: int = 0
    """The commit that answered the last one."""
    lost: bool = False
    """Whether one that is not answered came because a file is lost."""


@dataclass(frozen=True, slots=True)
class Said:
    """How far the requests to pause or to go on were followed. Both only rise.

    Who asked waits for these: what a request brought about may be over before anybody looks.
    """

    taken: int = 0
    """The ticket of the last one that was taken up."""
    rested: int = 0
    """The last of them under which no microbatch ran and none was to begin."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request to go back, or to run on another placement."""

    ticket: int = 0
    """Which request; 0 when there was none."""
    failure: ActorFailure | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """A placement asked for that no microbatch has committed on yet."""

    ticket: int
    to: Placement
    tried: bool = False
    """Whether the running attempt runs on it."""


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
    """How many tries at the present step failed in a row."""
    failure: ActorFailure | None = None
    commit: Commit | None = None
    blamed: int = 0
    """How many of the failures count towards the limit: not those of the environment."""
    careful: bool = False
    """Whether an attempt at this microbatch met a record that cannot be processed."""
    owed: tuple[Commit, ...] = ()
    """Commits whose rows for other depots may not have been delivered yet, oldest first."""
    asked: Asked = Asked()
    answer: Answer = Answer()
    """To the last request to go back."""
    placement: Placement = NOWHERE
    """Where the last microbatch ran, and the next one runs unless another is asked for."""
    placing: Placing | None = None
    placed: Answer = Answer()
    """To the last request for another placement."""
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    """For each PState of a timed step what time it goes by."""
    ticks: Mapping[str, int] = field(default_factory=dict)
    """For each tick that the topology reads how many milliseconds are between two."""
    migrations: Mapping[str, Migrating] = field(default_factory=dict)
    """For each PState that was ever migrated what it is migrated to."""
    cutting: Cutting = WEIGHED
    """Whether the plan may be too large to run."""
    room: int = 0
    """How many bytes a microbatch takes although the options allow more, since one of more had to
    be cut; 0 when none had."""
    heads: Heads = NO_HEADS
    """Which commit was the last one when."""
    paused: Paused | None = None
    """Why it rests, when somebody said so."""
    said: Said = Said()
    delivered: Reach = field(default_factory=dict)
    """How far the topology has appended to depots."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A life of the coordinator begins where the objects say that the last one ended."""

    plan: Plan | None
    """The plan that follows the last commit, when an earlier life left one."""
    owed: tuple[Commit, ...] = ()
    """Commits, oldest first, whose rows for depots may not be there yet: the last one, or none."""
    version: int = 0
    """The highest version that an attempt at that plan may have had."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Time to look for work; ``ends`` are the depots' end offsets."""

    starts: dict[str, list[int]]
    ends: dict[str, list[int]]
    now_ms: int
    sizes: Sizes = field(default_factory=dict)
    """How many bytes there are to read, from the progress on, as far as a microbatch may go."""


@dataclass(frozen=True, slots=True)
class PlanReady:
    """The plan object exists: just made, or left by an earlier attempt."""

    plan: Plan
    found: bool = False
    """Whether somebody else made it, who may have had other limits."""
    version: int = 0
    """The highest version that an attempt at it may have had."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """How many bytes the running plan's ranges hold."""

    sizes: Sizes


@dataclass(frozen=True, slots=True)
class PlanCut:
    """A smaller revision of the running plan exists: the one asked for, or somebody else's."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class AttemptSucceeded:
    """All jobs of the attempt ran."""

    outcome: Outcome
    now_ms: int
    pinned: int | None = None
    """The lowest commit that another module's topology is about to read, if any."""
    steady_ms: int = 0
    """When, by a clock that only goes forward."""
    seen: Wake | None = None
    """What there is to read after it, where the next microbatch may be read ahead."""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """The attempt ended without a result."""

    failure: ActorFailure


@dataclass(frozen=True, slots=True)
class Retry:
    """The delay after a failed attempt is over."""


@dataclass(frozen=True, slots=True)
class CommitCreated:
    """The commit object is durable: the one just asked for, or one made earlier under its id."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """Another coordinator made this commit, or fenced this epoch."""

    failure: ActorFailure


@dataclass(frozen=True, slots=True)
class Delivered:
    """The rows of the commit are in the depots that they are for, and no further than this."""

    reach: Reach = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """Some of the rows may not be there yet; delivering again does no harm."""

    failure: ActorFailure


@dataclass(frozen=True, slots=True)
class Published:
    """Readers see the commit."""

    steady_ms: int = 0
    """Since when, by a clock that only goes forward."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What nobody needs any more is gone."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The user wants no further microbatch after the running one."""

    paused: Paused | None = None
    """As it is kept."""
    ticket: int = 0
    """Higher for every request to pause or to go on; 0 when nobody waits for this one."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The user wants the topology to go on, also after it failed."""

    ticket: int = 0
    """Higher for every request to pause or to go on; 0 when nobody waits for this one."""


@dataclass(frozen=True, slots=True)
class AskCheckpoint:
    """The user wants all that changed since its last checkpoint in one, now."""

    lost: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By PState the vnodes of which a file is lost: their checkpoints count no more."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """The user wants the state as it was after an earlier microbatch, and to go on from there."""

    ticket: int
    """Above 0, higher for every request: the answer carries it."""
    to: int
    keep_appended: bool = False
    """Whether rows that the abandoned microbatches appended to depots may stay."""


@dataclass(frozen=True, slots=True)
class MoveTo:
    """The cluster wants the next microbatch on another placement."""

    ticket: int
    """Above 0, higher for every request: the answer carries it."""
    to: Placement
    trial: bool = True
    """Whether it stands only when a microbatch has committed there; else it stands at once."""


@dataclass(frozen=True, slots=True)
class Join:
    """PStates were filled beside the topology, from all that it has read, and no more."""

    commit_id: int
    """The commit that is to bring them in."""
    pstates: Mapping[str, PStateCommit]
    """What it is to say of them."""
    clocks: Clocks
    """How far time is in what was filled."""
    ends: Mapping[str, Sequence[int]]
    """How far they were filled, by depot and depot partition."""
    now_ms: int


@dataclass(frozen=True, slots=True)
class Joined:
    """From now on the steps run that write the PStates which the last commit brought in."""

    vnode_counts: dict[str, int]
    clocks: Mapping[str, Clock]
    migrations: Mapping[str, Migrating]


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The topology has other options, from its next microbatch or attempt on."""

    options: Options


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A new timeline began; everything of the one before it above the commit is abandoned."""

    commit: Commit
    checkpoints: Checkpoints
    ticket: int = 0
    """The request that this answers; 0 when another coordinator went back."""
    failure: ActorFailure | None = None
    """Why the request leads elsewhere: somebody went back before it."""
    paused: Paused | None = None
    """The pause with which the timeline began."""


@dataclass(frozen=True, slots=True)
class RollBackRefused:
    """Nothing was changed."""

    ticket: int
    failure: ActorFailure


Event = (
    Begin
    | Wake
    | PlanReady
    | Weighed
    | PlanCut
    | AttemptSucceeded
    | AttemptFailed
    | Retry
    | CommitCreated
    | CommitRefused
    | Delivered
    | DeliveryFailed
    | Published
    | Tidied
    | Pause
    | Resume
    | AskCheckpoint
    | MoveTo
    | RollBack
    | RolledBack
    | RollBackRefused
    | Join
    | Joined
    | SetOptions
)


@dataclass(frozen=True, slots=True)
class CreatePlan:
    """Create plan object ``plan.id``, or find the one that is there; answer PlanReady."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Weigh:
    """Find out how many bytes the plan's ranges hold; answer Weighed."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class CutPlan:
    """Create this revision of the plan, or find the one that is there; answer PlanCut."""

    plan: Plan
    before: Plan
    """The revision that it follows."""
    why: ActorFailure | None = None
    """What the one before failed with; None when only the limits were lowered."""


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """Run the topology's jobs over the plan's ranges."""

    plan: Plan
    version: int
    placement: Placement = NOWHERE
    careful: bool = False
    """Whether to find the records that cannot be processed, which an attempt before met."""


@dataclass(frozen=True, slots=True)
class CreateCommit:
    """Create the commit object."""

    commit: Commit
    ahead: Plan | None = None
    """What to read meanwhile; no plan object stands for it."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Append the commit's rows to the depots that they are for."""

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
class GoBack:
    """Begin a new timeline at commit ``to``; answer RolledBack or RollBackRefused."""

    ticket: int
    to: int
    keep_appended: bool
    last: Commit
    """The last commit of the timeline that ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for so long, unless something happens."""

    delay_ms: int | None
    """None: until an event comes."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop for good: another coordinator owns the topology."""

    failure: ActorFailure


Work = CreatePlan | Weigh | CutPlan | RunAttempt | CreateCommit | Deliver | Publish | Tidy | GoBack
"""What ``actions.Actions`` does; the other commands are for whoever waits."""

Command = Work | Wait | Halt
