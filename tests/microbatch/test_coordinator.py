"""The coordinator's decisions: what follows what, and what can never happen. No Spark, no files."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.microbatch import events as ev
from atoll.microbatch.checkpoints import Checkpoints
from atoll.microbatch.coordinator import decide
from atoll.microbatch.objects import GENESIS, unpack_ids
from atoll.microbatch.options import Options
from atoll.microbatch.outcome import ActorFailure, JobOutcome, LogFile, Manifest, Outcome
from atoll.pstate.history import FileRef

FAILURE = ActorFailure("E-TEST", "it broke")


def _state(**changes):
    last = msgspec.structs.replace(GENESIS, ranges={"d": [(0, 0), (5, 5)]})
    state = ev.State(1, Options(), last, {"p": 4}, Checkpoints({}))
    return dataclasses.replace(state, **changes) if changes else state


def _wake(*ends):
    return ev.Wake({"d": [0] * len(ends)}, {"d": list(ends)}, now_ms=7)


def _outcome(vnodes=(1, 3)):
    log = LogFile(FileRef("log", 1, 2, 3), list(vnodes))
    return Outcome([JobOutcome(0, [Manifest("token", 0, logs={"p": log})])])


def _to_attempt(state):
    state, command = decide(state, _wake(3, 9))
    assert isinstance(command, ev.CreatePlan)
    return decide(state, ev.PlanReady(command.plan))


def test_a_microbatch_goes_through_its_steps_and_the_next_begins_where_it_ended():
    """Prime, process, commit, publish, tidy; then ids and offsets go on without a gap."""
    state, run = _to_attempt(_state())
    assert (run.plan.id, run.version) == (1, 1)
    assert run.plan.ranges == {"d": [(0, 3), (5, 9)]}
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 11))
    assert create.commit.processed == 7
    assert unpack_ids(create.commit.pstates["p"].touched) == [0, 1, 0, 1]
    assert create.commit.tokens == ["token"]
    state, publish = decide(state, ev.CommitCreated(create.commit))
    assert publish.commit is create.commit
    state, _ = decide(state, ev.Published())
    state, _ = decide(state, ev.Tidied())
    state, command = decide(state, _wake(4, 9))
    assert command.plan.id == 2
    assert command.plan.ranges == {"d": [(3, 4), (9, 9)]}


def test_nothing_new_is_no_microbatch():
    """An empty range costs nothing but a wait."""
    state, command = decide(_state(), _wake(0, 5))
    assert command == ev.Wait(Options().empty_sleep_millis)
    assert state.step == ev.Step.IDLE


def test_a_retry_keeps_id_and_records_and_raises_the_version():
    """Whatever was appended in between, every attempt reads the planned range."""
    state, run = _to_attempt(_state())
    plan = run.plan
    for version in (2, 3, 4):
        state, wait = decide(state, ev.AttemptFailed(FAILURE))
        assert isinstance(wait, ev.Wait)
        assert wait.delay_ms is not None
        state, run = decide(state, ev.Retry())
        assert run.version == version
        assert run.plan is plan


def test_retries_end_and_resume_begins_again():
    """After the last attempt the topology is failed, its progress intact; resume goes on."""
    options = Options().with_values({"topology.microbatch.retry.max.attempts": 2})
    state, run = _to_attempt(_state(options=options))
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    state, _ = decide(state, ev.Retry())
    state, wait = decide(state, ev.AttemptFailed(FAILURE))
    assert state.condition == ev.Condition.FAILED
    assert wait == ev.Wait(None)
    assert state.failure == FAILURE
    state, again = decide(state, ev.Resume())
    assert again.plan == run.plan
    assert again.version == 3
    assert state.condition == ev.Condition.RUNNING


def test_a_plan_left_by_an_earlier_life_is_used_as_it_is():
    """A new coordinator reads the plan that is there, whatever the depots hold by now."""
    _, run = _to_attempt(_state())
    state, again = decide(_state(epoch=2), ev.PlanReady(run.plan))
    assert again.plan is run.plan
    assert state.version == 1


def test_a_refused_commit_halts_for_good():
    """Fenced is fenced: no event leads back to work."""
    state, _ = _to_attempt(_state())
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 11))
    state, halt = decide(state, ev.CommitRefused(FAILURE))
    assert isinstance(halt, ev.Halt)
    for event in (ev.Resume(), ev.Pause(), _wake(9, 9)):
        state, command = decide(state, event)
        assert isinstance(command, ev.Wait)
        assert state.condition == ev.Condition.FENCED
    assert create.commit.id == 1


def test_pause_holds_back_the_next_microbatch_and_a_retry():
    """A pause between attempts keeps the plan; resume tries it again."""
    state, _ = decide(_state(), ev.Pause())
    state, command = decide(state, _wake(3, 9))
    assert isinstance(command, ev.Wait)
    state, _ = decide(state, ev.Resume())
    state, run = _to_attempt(state)
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    state, _ = decide(state, ev.Pause())
    state, command = decide(state, ev.Retry())
    assert command == ev.Wait(None)
    state, again = decide(state, ev.Resume())
    assert again.plan is run.plan


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=2), min_size=1, max_size=30),
    st.integers(1, 9),
)
def test_ranges_are_contiguous_and_bounded(appends, limit):
    """Over any appends: every record is in exactly one microbatch, none holds more than allowed."""
    options = Options().with_values({"depot.microbatch.max.records": limit})
    last = msgspec.structs.replace(GENESIS, ranges={"d": [(0, 0), (0, 0)]})
    state = ev.State(1, options, last, {"p": 4}, Checkpoints({}))
    ends, seen, ids = [0, 0], [0, 0], []
    for sizes in [*appends, *[[0, 0]] * 100]:
        ends = [end + size for end, size in zip(ends, sizes, strict=True)]
        state, command = decide(state, _wake(*ends))
        if not isinstance(command, ev.CreatePlan):
            continue
        for partition, (start, end) in enumerate(command.plan.ranges["d"]):
            assert start == seen[partition]
            assert start <= end <= start + limit
            seen[partition] = end
        ids.append(command.plan.id)
        state, _ = decide(state, ev.PlanReady(command.plan))
        state, create = decide(state, ev.AttemptSucceeded(_outcome(), 1))
        state, _ = decide(state, ev.CommitCreated(create.commit))
        state, _ = decide(state, ev.Published())
        state, _ = decide(state, ev.Tidied())
    if max(ends) <= limit * 100:
        assert seen == ends
    assert ids == list(range(1, len(ids) + 1))
    assert state.last.processed == sum(seen)


def test_an_event_out_of_turn_is_a_defect():
    """Going on from the wrong step would break the protocol."""
    with pytest.raises(AssertionError):
        decide(_state(), ev.Published())
