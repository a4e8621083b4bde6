"""Decides what a topology does next. Pure: state and event in, new state and command out.

::

            Wake, nothing new            Retry
           +------------+        +------------------+
           v            |        v                  |
    +--> IDLE ----------+--> PROCESS --AttemptFailed--> BACKOFF / FAILED
    |      | new records     ^   |
    |      v                 |   | AttemptSucceeded
    |    PRIME --PlanReady---+   v
    |                          COMMIT --CommitRefused--> FENCED
    |                            | CommitCreated
    |                            v
    +------ TIDY <--Published- PUBLISH

The steps carry the numbers of the protocol (``docs/concepts/microbatch.md``). Whoever runs the
coordinator executes the command and reports the matching event; nothing here reads a clock, a
file or Spark, so a test can drive every order of events in microseconds.
"""

from __future__ import annotations

from dataclasses import replace

from atoll.microbatch import planning
from atoll.microbatch.commit import build_commit
from atoll.microbatch.events import (
    AttemptFailed,
    AttemptSucceeded,
    Command,
    CommitCreated,
    CommitRefused,
    Condition,
    CreateCommit,
    CreatePlan,
    Event,
    Halt,
    Pause,
    PlanReady,
    Publish,
    Published,
    Resume,
    Retry,
    RunAttempt,
    State,
    Step,
    Tidied,
    Tidy,
    Wait,
    Wake,
)
from atoll.microbatch.objects import Plan
from atoll.microbatch.outcome import ActorFailure

__all__ = ["decide"]

_RETRY_DELAY_MS_MIN = 50
_LOOK_AGAIN_MS = 1_000
"""How often a paused topology looks whether it was fenced."""


def decide(state: State, event: Event) -> tuple[State, Command]:
    """The next state, and the one thing to do now.

    An event that does not belong to the state's step is a defect of the caller and fails an
    assertion: going on would break the protocol.
    """
    match event:
        case Pause():
            return _pause(state)
        case Resume():
            return _resume(state)
        case Wake():
            return _wake(state, event)
        case CommitRefused(failure):
            return replace(state, condition=Condition.FENCED, failure=failure), Halt(failure)
    return _advance(state, event)


def _advance(state: State, event: Event) -> tuple[State, Command]:
    """From one step of a microbatch to the next."""
    match event:
        case PlanReady(plan):
            assert state.step in (Step.IDLE, Step.PRIME)
            assert plan.id == state.last.id + 1, "a plan follows the last commit"
            return _attempt(replace(state, plan=plan, failures=0))
        case Retry():
            assert state.step == Step.PROCESS
            return _attempt(state) if state.condition == Condition.RUNNING else (state, Wait(None))
        case AttemptFailed(failure):
            return _failed(state, failure)
        case AttemptSucceeded(outcome, now_ms):
            assert state.step == Step.PROCESS
            commit = build_commit(state, outcome, now_ms)
            return replace(state, step=Step.COMMIT, commit=commit), CreateCommit(commit)
        case CommitCreated(commit):
            assert state.step == Step.COMMIT
            return replace(state, step=Step.PUBLISH, commit=commit), Publish(commit)
        case Published():
            return _published(state)
        case Tidied():
            assert state.step == Step.TIDY
            return replace(state, step=Step.IDLE), Wait(0)
    raise AssertionError(f"{event} belongs to decide")


def _wake(state: State, event: Wake) -> tuple[State, Command]:
    if state.condition != Condition.RUNNING or state.step != Step.IDLE:
        return state, Wait(_LOOK_AGAIN_MS)
    limit = state.options.microbatch_records_max
    ranges = planning.choose_ranges(state.last.ends(), event.starts, event.ends, limit)
    if all(start == end for each in ranges.values() for start, end in each):
        return state, Wait(state.options.empty_sleep_millis)
    due = state.checkpoints.due(state.last, state.options.checkpoint_commits)
    plan = Plan(state.last.id + 1, state.epoch, event.now_ms, ranges, due)
    return replace(state, step=Step.PRIME, version=0), CreatePlan(plan)


def _attempt(state: State) -> tuple[State, Command]:
    """Step 1: the version rises with every attempt; step 2 begins."""
    state = replace(state, step=Step.PROCESS, version=state.version + 1)
    assert state.plan is not None
    return state, RunAttempt(state.plan, state.version)


def _failed(state: State, failure: ActorFailure) -> tuple[State, Command]:
    assert state.step in (Step.PROCESS, Step.PRIME, Step.COMMIT)
    failures = state.failures + 1
    state = replace(state, step=Step.PROCESS, failures=failures, failure=failure, commit=None)
    if failures >= state.options.retry_attempts_max:
        return replace(state, condition=Condition.FAILED), Wait(None)
    delay = min(_RETRY_DELAY_MS_MIN * 2 ** (failures - 1), state.options.retry_delay_millis_max)
    return state, Wait(delay)


def _published(state: State) -> tuple[State, Command]:
    assert state.step == Step.PUBLISH
    assert state.commit is not None
    commit = state.commit
    state = replace(
        state,
        step=Step.TIDY,
        last=commit,
        plan=None,
        commit=None,
        version=0,
        failures=0,
        failure=None,
        checkpoints=state.checkpoints.with_commit(commit).above(commit.floor),
    )
    return state, Tidy(commit)


def _pause(state: State) -> tuple[State, Command]:
    if state.condition == Condition.RUNNING:
        state = replace(state, condition=Condition.PAUSED)
    return state, Wait(_LOOK_AGAIN_MS if state.step == Step.IDLE else None)


def _resume(state: State) -> tuple[State, Command]:
    if state.condition == Condition.FENCED:
        return state, Wait(None)
    state = replace(state, condition=Condition.RUNNING)
    if state.plan is not None:  # paused or failed between two attempts at it
        return _attempt(replace(state, failures=0, failure=None))
    return state, Wait(0)
