"""Decides what a topology does next. Pure: state and event in, new state and command out.

::

            Wake, nothing new            Retry
           +------------+        +------------------+
           v            |        v                  |
    +--> IDLE ----------+--> PROCESS --AttemptFailed--> waits / FAILED
    |      | new records     ^   |
    |      v                 |   | AttemptSucceeded
    |    PRIME --PlanReady---+   v
    |                          COMMIT --CommitRefused--> FENCED
    |                            | CommitCreated
    |                            v
    +------ TIDY <--Published- PUBLISH <--DeliveryFailed, Retry
                                         (delivery comes first)

A rollback is decided while nothing runs (IDLE, or waiting in PRIME or PROCESS) and leads back to
IDLE, paused. Another placement is tried by the next attempt: it stands when that attempt has
committed, and the old one when it failed. The steps carry the numbers of the protocol
(``docs/concepts/microbatch.md``).

An attempt that met a record which no attempt can process is followed at once by a *careful* one,
which finds such records and names them or sets them aside. When that meets another, the topology
has FAILED: to try again would give the same.

Whoever runs the coordinator executes the command and reports the matching event; nothing here
reads a clock, a file or Spark, so a test can drive every order of events in microseconds.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from atoll.errors import BacklogError
from atoll.microbatch.backoff import delay_ms, is_environmental
from atoll.microbatch.commits.commit import build_commit
from atoll.microbatch.commits.joining import joined_commit
from atoll.microbatch.commits.objects import Commit, Plan, further
from atoll.microbatch.commits.rollback import refusal, rolled_back
from atoll.microbatch.events import (
    Answer,
    AskCheckpoint,
    Asked,
    AttemptFailed,
    AttemptSucceeded,
    Begin,
    Command,
    CommitCreated,
    CommitRefused,
    Condition,
    CreateCommit,
    CreatePlan,
    CutPlan,
    Deliver,
    Delivered,
    DeliveryFailed,
    Event,
    GoBack,
    Halt,
    Join,
    Joined,
    MoveTo,
    Pause,
    Placing,
    PlanCut,
    PlanReady,
    Publish,
    Published,
    Resume,
    Retry,
    RollBack,
    RollBackRefused,
    RolledBack,
    RunAttempt,
    SetOptions,
    State,
    Step,
    Tidied,
    Tidy,
    Wait,
    Wake,
    Weigh,
    Weighed,
)
from atoll.microbatch.outcome import ActorFailure, failure_of
from atoll.microbatch.plans import migrating, planning
from atoll.microbatch.plans.ahead import expected, to_read
from atoll.microbatch.plans.cutting import WEIGHED, Cutting, grown, room_left, smaller
from atoll.microbatch.plans.fitting import Sizes
from atoll.microbatch.plans.timekeeping import tick_ranges, timed

_LOOK_AGAIN_MS = 1_000
"""How often a paused topology looks whether it was fenced."""


def decide(state: State, event: Event) -> tuple[State, Command]:
    """The next state, and the one thing to do now.

    An event that does not belong to the state's step is a defect of the caller and fails an
    assertion: going on would break the protocol.
    """
    if state.condition == Condition.FENCED:
        return state, Wait(None)
    state, command = _decide(state, event)
    return _settle_rest(_settle_placing(state)), command


def _decide(state: State, event: Event) -> tuple[State, Command]:
    match event:
        case Pause(paused, ticket):
            state = replace(_taken(state, ticket), paused=paused)
            running = state.condition == Condition.RUNNING
            return _go_on(replace(state, condition=Condition.PAUSED) if running else state)
        case Resume(ticket):
            state = replace(_taken(state, ticket), condition=Condition.RUNNING, paused=None)
            state = replace(state, cutting=Cutting(), room=0)
            return _go_on(replace(state, failures=0, blamed=0, failure=None, careful=False))
        case AskCheckpoint(lost):
            asked = state.asked
            asked = replace(asked, came=asked.came + 1, lost=asked.lost or bool(lost))
            known = state.checkpoints.without(lost)
            return _go_on(replace(state, asked=asked, checkpoints=known))
        case MoveTo(ticket, to, trial):
            placing = Placing(ticket, to)
            return _go_on(replace(state, placing=placing) if trial else _placed(state, placing))
        case SetOptions(options):
            state = replace(state, cutting=replace(state.cutting, weighed=False))
            return _go_on(replace(state, options=options))
        case RollBack() | RolledBack() | RollBackRefused():
            return _roll_back(state, event)
        case Begin():
            return _begin(state, event)
        case Wake():
            return _wake(state, event)
        case CommitRefused(failure):
            return replace(state, condition=Condition.FENCED, failure=failure), Halt(failure)
    return _advance(state, event)


def _advance(state: State, event: Event) -> tuple[State, Command]:
    """From one step of a microbatch to the next."""
    match event:
        case PlanReady() | Weighed() | PlanCut():
            return _prime(state, event)
        case Retry():
            assert state.step in (Step.PRIME, Step.PROCESS, Step.PUBLISH)
            return _go_on(state)
        case AttemptFailed(failure):
            return _failed(state, failure)
        case AttemptSucceeded(outcome, now_ms, pinned, steady_ms, seen):
            assert state.step == Step.PROCESS
            state = replace(state, heads=state.heads.at(steady_ms, state.options.history_millis))
            commit = build_commit(state, outcome, now_ms, pinned)
            ahead = None if seen is None else expected(state, commit, seen)
            return replace(state, step=Step.COMMIT, commit=commit), CreateCommit(commit, ahead)
        case CommitCreated(commit):
            return _committed(state, commit)
        case Delivered(reach):
            return _delivered(replace(state, delivered=further(state.delivered, reach)))
        case DeliveryFailed(failure):
            assert state.step == Step.PUBLISH
            state = replace(state, failures=state.failures + 1, failure=failure)
            return state, _back_off(state, environmental=True)
        case Published(steady_ms):
            return _published(state, steady_ms)
        case Tidied():
            assert state.step == Step.TIDY
            return replace(state, step=Step.IDLE), Wait(0)
    assert isinstance(event, Join | Joined), f"{event} belongs to decide"
    return _join(state, event)


def _go_on(state: State) -> tuple[State, Command]:
    """What there is to do when a wait is over, or a request ended it."""
    running = state.condition == Condition.RUNNING
    match state.step:
        case Step.PUBLISH:  # a commit stands, so its rows are delivered in any condition
            return state, Deliver(state.owed[0])
        case Step.PROCESS:
            return _attempt(state) if running else (state, Wait(None))
    assert state.step in (Step.IDLE, Step.PRIME)
    return replace(state, step=Step.IDLE), Wait(0 if running else _LOOK_AGAIN_MS)


def _roll_back(
    state: State, event: RollBack | RolledBack | RollBackRefused
) -> tuple[State, Command]:
    """A request to go back, or what came of it."""
    match event:
        case RolledBack():  # in any step: another coordinator may have gone back
            return rolled_back(state, event), Wait(_LOOK_AGAIN_MS)
        case RollBackRefused(ticket, failure):
            return _go_on(replace(state, answer=Answer(ticket, failure)))
    refused = refusal(state, event)
    if refused is not None:
        return _go_on(replace(state, answer=Answer(event.ticket, refused)))
    return state, GoBack(event.ticket, event.to, event.keep_appended, state.last)


def _join(state: State, event: Join | Joined) -> tuple[State, Command]:
    """Between two microbatches, when what was filled is exactly as far as the topology."""
    match event:
        case Joined(vnode_counts, clocks, migrations):
            state = replace(state, vnode_counts=vnode_counts, clocks=clocks, migrations=migrations)
            return _go_on(state)
    resting = state.step == Step.IDLE and state.condition in (Condition.RUNNING, Condition.PAUSED)
    done = state.last.ends()
    level = all(list(ends) == done.get(depot) for depot, ends in event.ends.items())
    if not (resting and level and event.commit_id == state.last.id + 1):
        return _go_on(state)
    commit = joined_commit(state, event)
    return replace(state, step=Step.COMMIT, commit=commit), CreateCommit(commit)


def _begin(state: State, event: Begin) -> tuple[State, Command]:
    """A new life first delivers what the last commit may owe, then tries the plan left to it.

    Whether the life before it got to deliver cannot be seen, and doing it again does no harm.
    """
    assert state.step == Step.IDLE
    owed = tuple(commit for commit in event.owed if commit.appends)
    state = replace(state, owed=owed, step=Step.PUBLISH)
    if event.plan is not None:
        assert event.plan.id == state.last.id + 1, "a plan follows the last commit"
        plan = planning.with_unread(event.plan, state.last.ends())
        state = replace(state, plan=plan, version=event.version, cutting=Cutting())
    return (state, Deliver(owed[0])) if owed else _begun(state)


def _begun(state: State) -> tuple[State, Command]:
    return _go_on(replace(state, step=Step.IDLE if state.plan is None else Step.PROCESS))


def _wake(state: State, event: Wake) -> tuple[State, Command]:
    if state.condition != Condition.RUNNING or state.step != Step.IDLE:
        return state, Wait(_LOOK_AGAIN_MS)
    lost = planning.lost_records(state.last.ends(), event.ends)
    if lost is not None:
        return replace(state, condition=Condition.FAILED, failure=failure_of(lost)), Wait(None)
    ranges = to_read(state.last, event, state.options, state.room)
    now_ms = max(event.now_ms, state.last.clocks.now_ms)
    ranges |= tick_ranges(state.ticks, state.last.ends(), now_ms)
    asked = state.asked
    stale = state.checkpoints.stale(state.last) if asked.came > asked.answered else {}
    if asked.came > asked.answered and not stale:  # whoever asked has what it asked for
        state = replace(state, asked=Asked(asked.came, asked.came, asked.came, state.last.id))
    follows = state.last
    slices = migrating.slices(follows, state.migrations, state.options)
    plan = Plan(
        follows.id + 1,
        state.epoch,
        now_ms,
        ranges,
        stale,
        follows.timeline,
        migrate_vnodes=slices,
        behind=planning.left_behind(ranges, event.ends),
    )
    plan = timed(plan, follows.clocks, state.clocks)
    idle = all(start == end for each in ranges.values() for start, end in each)
    if idle and not (stale or plan.due or slices) and state.placing is None:
        if state.failure is not None and state.failure.code == BacklogError.code:  # it is over
            state = replace(state, failures=0, failure=None)
        return state, Wait(state.options.empty_sleep_millis)
    if not stale:
        due = state.checkpoints.due(follows, state.options.checkpoint_commits)
        plan = msgspec.structs.replace(plan, checkpoint_vnodes=due)
    return replace(state, step=Step.PRIME, version=0), CreatePlan(plan)


def _prime(state: State, event: PlanReady | Weighed | PlanCut) -> tuple[State, Command]:
    """Step 1: from a plan to one that may be small enough to run."""
    match event:
        case PlanReady():
            assert state.step in (Step.IDLE, Step.PRIME)
            return _planned(state, event)
        case Weighed(sizes):
            assert state.step in (Step.PRIME, Step.PROCESS)
            return _weighed(state, sizes)
    assert state.step in (Step.PRIME, Step.PROCESS)
    return _cut(state, event.plan)


def _planned(state: State, event: PlanReady) -> tuple[State, Command]:
    """Every attempt follows the plan object: ours, or the one that was there."""
    plan = planning.with_unread(event.plan, state.last.ends())
    assert plan.id == state.last.id + 1, "a plan follows the last commit"
    asked = state.asked
    if asked.came > asked.answered and plan.checkpoint_vnodes == state.checkpoints.stale(
        state.last
    ):
        state = replace(state, asked=replace(asked, planned=asked.came))
    state = replace(state, plan=plan, failures=0, blamed=0, failure=None, careful=False)
    state = replace(state, version=event.version)
    return _attempt(replace(state, cutting=Cutting() if event.found else WEIGHED))


def _weighed(state: State, sizes: Sizes) -> tuple[State, Command]:
    """A plan beyond the limits, or one that did not run, is cut; any other is tried as it is."""
    assert state.plan is not None
    before, why = state.plan, state.cutting.why
    room = state.room if why is None else room_left(sizes)
    plan = smaller(before, sizes, state.options, room if why else 0)
    if plan is None:
        smallest = state.cutting.smallest or why is not None
        cutting = replace(state.cutting, weighed=True, why=None, smallest=smallest)
        return _attempt(replace(state, cutting=cutting))
    state = replace(state, room=room, cutting=replace(state.cutting, weighed=True, why=None))
    plan = msgspec.structs.replace(plan, epoch=state.epoch)
    return state, CutPlan(plan, before, why)


def _cut(state: State, plan: Plan) -> tuple[State, Command]:
    """From now on every attempt follows the revision, which has all its tries before it."""
    assert state.plan is not None
    assert plan.id == state.plan.id, "a revision is one of the same plan"
    plan = planning.with_unread(plan, state.last.ends())
    state = replace(state, plan=plan, failures=0, blamed=0, careful=False, cutting=Cutting())
    return _attempt(state)


def _attempt(state: State) -> tuple[State, Command]:
    """Step 1: the version rises with every attempt; step 2 begins."""
    if state.cutting.due:
        assert state.plan is not None
        return state, Weigh(state.plan)
    state = replace(state, step=Step.PROCESS, version=state.version + 1)
    placement = state.placement
    if state.placing is not None:
        placement = state.placing.to
        state = replace(state, placing=replace(state.placing, tried=True))
    assert state.plan is not None
    return state, RunAttempt(state.plan, state.version, placement, state.careful)


def _failed(state: State, failure: ActorFailure) -> tuple[State, Command]:
    """Steps 1 to 3 begin again; when there is no plan yet, with another look at the depots."""
    assert state.step in (Step.IDLE, Step.PRIME, Step.PROCESS, Step.COMMIT)
    step = Step.PRIME if state.plan is None else Step.PROCESS
    environmental = is_environmental(failure)  # blames nobody and is waited out
    met = failure.permanent and not state.careful and step == Step.PROCESS
    blamed = state.blamed + (0 if environmental or met else 1)
    state = replace(state, step=step, blamed=blamed, failures=state.failures + 1)
    cutting = state.cutting.after(failure, state.plan)
    state = replace(state, failure=failure, commit=None, cutting=cutting)
    if met:  # a placement on trial is not at fault, and is tried again
        return replace(state, careful=True), Wait(0)
    if state.placing is not None and state.placing.tried:  # so the old placement stands
        placed = Answer(state.placing.ticket, failure)
        state = replace(state, placing=None, placed=placed)
    spent = blamed >= state.options.retry_attempts_max and cutting.why is None
    if failure.permanent or spent:
        return replace(state, condition=Condition.FAILED), Wait(None)
    return state, _back_off(state, environmental=environmental)


def _back_off(state: State, *, environmental: bool) -> Wait:
    most = state.options.retry_delay_millis_max
    return Wait(delay_ms(state.failures, most, environmental=environmental))


def _committed(state: State, commit: Commit) -> tuple[State, Command]:
    """Step 4 begins: the rows for other depots come first, since the commit counts on them."""
    assert state.step == Step.COMMIT
    commit = planning.with_unread(commit, state.last.ends())
    owed = (commit,) if commit.appends else ()
    state = replace(state, step=Step.PUBLISH, commit=commit, owed=owed)
    state = replace(state, failures=0, blamed=0, failure=None)
    return state, Deliver(commit) if owed else Publish(commit)


def _delivered(state: State) -> tuple[State, Command]:
    assert state.step == Step.PUBLISH
    state = replace(state, owed=state.owed[1:], failures=0, blamed=0, failure=None)
    if state.owed:
        return state, Deliver(state.owed[0])
    if state.commit is not None:
        return state, Publish(state.commit)
    return _begun(state)


def _published(state: State, steady_ms: int) -> tuple[State, Command]:
    assert state.step == Step.PUBLISH
    assert state.commit is not None
    commit = state.commit
    asked, checkpoints = state.asked, state.checkpoints.with_commit(commit)
    heads = state.heads.followed_by(commit.id, steady_ms, state.options.history_millis)
    if commit.floor > state.last.floor:
        checkpoints = checkpoints.above(commit.floor)
    if asked.planned > asked.answered:
        if asked.lost:  # what came before may need what is lost
            heads = heads.since_ever(commit.id)
        lost = asked.lost and asked.came > asked.planned
        asked = replace(asked, answered=asked.planned, commit=commit.id, lost=lost)
    state = replace(
        state,
        step=Step.TIDY,
        last=commit,
        plan=None,
        room=grown(state.room, state.options),
        commit=None,
        version=0,
        checkpoints=checkpoints,
        heads=heads,
        asked=asked,
    )
    if state.placing is not None and state.placing.tried:
        state = _placed(state, state.placing)
    return state, Tidy(commit)


def _settle_placing(state: State) -> State:
    """A topology that rests takes another placement at once: no attempt can tell about it."""
    if state.placing is None or state.condition in (Condition.RUNNING, Condition.FENCED):
        return state
    return _placed(state, state.placing)


def _taken(state: State, ticket: int) -> State:
    """A request to pause or to go on was taken up."""
    return replace(state, said=replace(state.said, taken=max(state.said.taken, ticket)))


def _settle_rest(state: State) -> State:
    """Note for whoever asked for a rest that it is there, however short it is."""
    said = state.said
    between = state.step in (Step.IDLE, Step.PRIME, Step.PROCESS)
    if said.rested == said.taken or state.condition == Condition.RUNNING or not between:
        return state
    return replace(state, said=replace(said, rested=said.taken))


def _placed(state: State, placing: Placing) -> State:
    return replace(state, placement=placing.to, placing=None, placed=Answer(placing.ticket))
