"""The coordinator's decisions: what follows what, and what can never happen. No Spark, no files."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.microbatch import events as ev
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.objects import GENESIS, AppendedRows, CheckpointFile, Plan, unpack_ids
from atoll.microbatch.control.options import Options
from atoll.microbatch.coordinator import decide
from atoll.microbatch.outcome import ActorFailure, JobOutcome, LogFile, Manifest, Outcome
from atoll.pstate.store.history import FileRef

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
    state, weigh = decide(state, ev.Resume())
    assert weigh == ev.Weigh(run.plan)
    state, again = decide(state, ev.Weighed({}))
    assert again.plan == run.plan
    assert again.version == 3
    assert state.condition == ev.Condition.RUNNING


BAD = ActorFailure("E-DATA", "a null key", permanent=True)


def test_a_record_that_no_attempt_can_process_is_looked_for_at_once():
    """The next attempt is careful, without a wait, whatever the limit is; the next one is not."""
    options = Options().with_values({"topology.microbatch.retry.max.attempts": 1})
    state, run = _to_attempt(_state(options=options))
    assert not run.careful
    state, wait = decide(state, ev.AttemptFailed(BAD))
    assert (wait, state.condition) == (ev.Wait(0), ev.Condition.RUNNING)
    state, careful = decide(state, ev.Retry())
    assert (careful.careful, careful.version, careful.plan) == (True, 2, run.plan)
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 11))
    for event in (ev.CommitCreated(create.commit), ev.Published(), ev.Tidied()):
        state, _ = decide(state, event)
    state, plan = decide(state, _wake(4, 9))
    state, run = decide(state, ev.PlanReady(plan.plan))
    assert not run.careful


def test_an_error_that_would_come_again_is_not_tried_again():
    """The careful attempt named its record; ten more would name the same."""
    state, _ = _to_attempt(_state())
    for event in (ev.AttemptFailed(BAD), ev.Retry()):
        state, _ = decide(state, event)
    named = msgspec.structs.replace(BAD, context={"record_offset": "7"})
    state, wait = decide(state, ev.AttemptFailed(named))
    assert (state.condition, wait) == (ev.Condition.FAILED, ev.Wait(None))
    assert (state.version, state.failure) == (2, named)
    state, _ = decide(state, ev.Resume())
    state, again = decide(state, ev.Weighed({}))
    assert (again.careful, again.version) == (False, 3)


def test_what_may_pass_is_tried_again_also_carefully():
    """A lost worker does not end the search, and counts as ever."""
    options = Options().with_values({"topology.microbatch.retry.max.attempts": 2})
    state, _ = _to_attempt(_state(options=options))
    for event in (ev.AttemptFailed(BAD), ev.Retry(), ev.AttemptFailed(FAILURE)):
        state, _ = decide(state, event)
    assert state.condition == ev.Condition.RUNNING
    state, run = decide(state, ev.Retry())
    assert (run.careful, run.version) == (True, 3)
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    assert state.condition == ev.Condition.FAILED


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


# Delivery -----------------------------------------------------------------------------------------


def _appending(commit_id=1, **changes):
    """A commit that appends rows to another depot."""
    rows = [AppendedRows("out", FileRef(f"rows-{commit_id}", 1, 2, 3))]
    base = msgspec.structs.replace(GENESIS, id=commit_id, appends=rows, ranges={"d": [(0, 3)] * 2})
    return msgspec.structs.replace(base, **changes)


def _appending_outcome():
    rows = [AppendedRows("out", FileRef("rows", 1, 2, 3))]
    return Outcome([JobOutcome(0, [Manifest("token", 0, appends=rows)])])


def _to_delivery(state):
    state, _ = _to_attempt(state)
    state, create = decide(state, ev.AttemptSucceeded(_appending_outcome(), 11))
    state, deliver = decide(state, ev.CommitCreated(create.commit))
    assert deliver == ev.Deliver(create.commit)
    return state, create.commit


def test_rows_for_other_depots_are_delivered_before_readers_see_the_commit():
    """Step 4 begins with the delivery; a commit without such rows is published at once."""
    state, commit = _to_delivery(_state())
    assert state.step == ev.Step.PUBLISH
    state, publish = decide(state, ev.Delivered())
    assert publish == ev.Publish(commit)
    state, tidy = decide(state, ev.Published())
    assert tidy == ev.Tidy(commit)
    assert state.owed == ()


def test_a_delivery_that_fails_is_tried_until_it_works():
    """However often it fails, the commit stands: no new attempt, no failed topology."""
    state, commit = _to_delivery(_state())
    delays = []
    for count in range(1, 200):
        state, wait = decide(state, ev.DeliveryFailed(FAILURE))
        assert state.condition == ev.Condition.RUNNING
        assert (state.failures, state.failure) == (count, FAILURE)
        delays.append(wait.delay_ms)
        state, again = decide(state, ev.Retry())
        assert again == ev.Deliver(commit)
    assert delays[:3] == [50, 100, 200]
    assert max(delays) == 5_000
    state, publish = decide(state, ev.Delivered())
    assert publish == ev.Publish(commit)
    assert (state.failures, state.failure) == (0, None)


def test_a_pause_while_a_delivery_fails_holds_after_it():
    """The commit stands, so its rows are delivered; then nothing else begins."""
    state, commit = _to_delivery(_state())
    state, _ = decide(state, ev.DeliveryFailed(FAILURE))
    state, again = decide(state, ev.Pause())
    assert again == ev.Deliver(commit)
    state, _ = decide(state, ev.DeliveryFailed(FAILURE))
    state, again = decide(state, ev.Retry())
    assert again == ev.Deliver(commit)
    state, publish = decide(state, ev.Delivered())
    assert publish == ev.Publish(commit)
    state, _ = decide(state, ev.Published())
    state, _ = decide(state, ev.Tidied())
    state, command = decide(state, _wake(30, 30))
    assert isinstance(command, ev.Wait)
    assert state.condition == ev.Condition.PAUSED
    state, _ = decide(state, ev.Resume())
    _, command = decide(state, _wake(30, 30))
    assert isinstance(command, ev.CreatePlan)


def test_a_new_life_delivers_what_the_last_commits_may_owe_before_anything_else():
    """Oldest first, only those with rows; then the plan left behind is tried, or it looks."""
    owed = (_appending(1), _appending(2, appends=[]), _appending(3))
    last = owed[-1]
    plan = Plan(4, 1, 7, {"d": [(3, 5), (3, 3)]}, {})
    for left in (None, plan):
        state, command = decide(_state(last=last, epoch=2), ev.Begin(left, owed))
        assert command == ev.Deliver(owed[0])
        state, wait = decide(state, ev.DeliveryFailed(FAILURE))
        assert isinstance(wait, ev.Wait)
        state, command = decide(state, ev.Retry())
        assert command == ev.Deliver(owed[0])
        state, command = decide(state, ev.Delivered())
        assert command == ev.Deliver(owed[2])
        state, command = decide(state, ev.Delivered())
        assert command == (ev.Wait(0) if left is None else ev.Weigh(plan))
        assert state.step == (ev.Step.IDLE if left is None else ev.Step.PROCESS)


def test_a_new_life_that_owes_nothing_begins_at_once():
    """With the plan left to it, or with a look at the depots."""
    state, command = decide(_state(), ev.Begin(None, ()))
    assert (state.step, command) == (ev.Step.IDLE, ev.Wait(0))
    plan = Plan(1, 1, 7, {"d": [(0, 3), (5, 5)]}, {})
    state, command = decide(_state(), ev.Begin(plan, (_appending(0, appends=[]),)))
    assert command == ev.Weigh(plan)


def test_a_pause_while_a_new_life_still_owes_holds_its_first_attempt():
    """The plan waits for the resume."""
    plan = Plan(2, 1, 7, {"d": [(3, 5), (3, 3)]}, {})
    state = _state(last=_appending(1), epoch=2)
    state, _ = decide(state, ev.Begin(plan, (_appending(1),)))
    state, _ = decide(state, ev.DeliveryFailed(FAILURE))
    state, _ = decide(state, ev.Pause())
    state, command = decide(state, ev.Delivered())
    assert (state.step, command) == (ev.Step.PROCESS, ev.Wait(None))
    _, command = decide(state, ev.Resume())
    assert command == ev.Weigh(plan)


def test_fenced_while_delivering_is_fenced():
    """The newer life delivers it; this one does nothing more."""
    state, _ = _to_delivery(_state())
    state, halt = decide(state, ev.CommitRefused(FAILURE))
    assert isinstance(halt, ev.Halt)
    for event in (ev.Retry(), ev.Resume(), ev.AskCheckpoint(), ev.CommitRefused(FAILURE)):
        state, command = decide(state, event)
        assert command == ev.Wait(None)
        assert state.condition == ev.Condition.FENCED


# Failures -----------------------------------------------------------------------------------------


def test_a_failure_of_the_environment_is_waited_out():
    """A full disk is nobody's fault: it never fails the topology, and other failures still do."""
    options = Options().with_values(
        {
            "topology.microbatch.retry.max.attempts": 3,
            "topology.microbatch.retry.delay.max.millis": 60_000,
        }
    )
    state, run = _to_attempt(_state(options=options))
    full = ActorFailure("E-STORAGE", "the disk refused")
    for _ in range(500):
        state, wait = decide(state, ev.AttemptFailed(full))
        assert 50 <= wait.delay_ms <= 5_000
        assert (state.condition, state.failure) == (ev.Condition.RUNNING, full)
        state, again = decide(state, ev.Retry())
        assert again.plan is run.plan
    for last in (False, False, True):
        state, wait = decide(state, ev.AttemptFailed(FAILURE))
        assert (state.condition == ev.Condition.FAILED) == last
        if not last:
            state, _ = decide(state, ev.AttemptFailed(full))
            state, _ = decide(state, ev.Retry())
    assert wait == ev.Wait(None)


def test_a_plan_that_cannot_be_made_is_planned_again():
    """Between the tries nothing is fixed yet: the depots are looked at anew."""
    state, command = decide(_state(), _wake(3, 9))
    assert isinstance(command, ev.CreatePlan)
    for _ in range(50):
        state, wait = decide(state, ev.AttemptFailed(ActorFailure("E-STORAGE", "full")))
        assert wait.delay_ms >= 50
        state, look = decide(state, ev.Retry())
        assert (state.step, look) == (ev.Step.IDLE, ev.Wait(0))
        state, command = decide(state, _wake(4, 9))
        assert command.plan.ranges == {"d": [(0, 4), (5, 9)]}
    state, run = decide(state, ev.PlanReady(command.plan))
    assert run == ev.RunAttempt(command.plan, 1)
    assert (state.failures, state.failure) == (0, None)


def test_a_plan_that_is_damaged_fails_the_topology_and_resume_looks_again():
    """Failures that blame something count before there is a plan as well."""
    options = Options().with_values({"topology.microbatch.retry.max.attempts": 2})
    state, _ = decide(_state(options=options), _wake(3, 9))
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    state, _ = decide(state, ev.Retry())
    state, _ = decide(state, _wake(3, 9))
    state, wait = decide(state, ev.AttemptFailed(FAILURE))
    assert (state.condition, wait) == (ev.Condition.FAILED, ev.Wait(None))
    state, command = decide(state, ev.Resume())
    assert (state.step, command) == (ev.Step.IDLE, ev.Wait(0))


def test_an_adopted_commit_is_the_one_that_counts():
    """Another life's commit under the id stands: its tokens and records are carried on."""
    state, _ = _to_attempt(_state(epoch=2))
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 11))
    theirs = msgspec.structs.replace(create.commit, epoch=1, version=4, tokens=["theirs"])
    state, publish = decide(state, ev.CommitCreated(theirs))
    assert publish == ev.Publish(theirs)
    state, _ = decide(state, ev.Published())
    assert state.last is theirs


@pytest.mark.parametrize("left", ["plan", "found plan", "revision", "commit"])
def test_what_a_life_left_that_read_less_goes_on_with_what_is_read_now(left):
    """Nothing of what it does not name is read, and the next microbatch begins with all of it."""
    state = _state()
    last = msgspec.structs.replace(state.last, ranges={**state.last.ranges, "e": [(3, 3)]})
    state = dataclasses.replace(state, last=last)
    plan = Plan(1, 1, 7, {"d": [(0, 4), (5, 5)]}, {})
    if left == "plan":
        state, run = decide(state, ev.Begin(plan))
    else:
        state, _ = decide(state, ev.Wake({"d": [0, 0], "e": [0]}, {"d": [4, 5], "e": [3]}, 7))
        state, run = decide(state, ev.PlanReady(plan, found=True))
    state, run = decide(state, ev.Weighed({"d": [[(4, 10)], []], "e": [[]]}))
    if left == "revision":
        state, _ = decide(state, ev.AttemptFailed(ActorFailure("E-TOO-LARGE", "no room")))
        state, _ = decide(state, ev.Retry())
        state, _ = decide(state, ev.Weighed({"d": [[(4, 10)], []], "e": [[]]}))
        half = msgspec.structs.replace(plan, revision=1, ranges={"d": [(0, 2), (5, 5)]})
        state, _ = decide(state, ev.PlanCut(half))
        state, run = decide(state, ev.Weighed({"d": [[(2, 5)], []], "e": [[]]}))
    assert run.plan.ranges["e"] == [(3, 3)]
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 9))
    theirs = create.commit
    if left == "commit":
        theirs = msgspec.structs.replace(theirs, ranges={"d": [(0, 4), (5, 5)]})
    for event in (ev.CommitCreated(theirs), ev.Published(), ev.Tidied()):
        state, _ = decide(state, event)
    _, plan = decide(state, ev.Wake({"d": [0, 0], "e": [0]}, {"d": [4, 5], "e": [5]}, 7))
    assert plan.plan.ranges["e"] == [(3, 5)]


# Checkpoints on request ---------------------------------------------------------------------------


def _committed_state():
    """One microbatch committed, which changed vnodes 1 and 3 of four."""
    state, _ = _to_attempt(_state())
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 11))
    for event in (ev.CommitCreated(create.commit), ev.Published(), ev.Tidied()):
        state, _ = decide(state, event)
    return state


def _run(state, plan, outcome):
    state, _ = decide(state, ev.PlanReady(plan))
    state, create = decide(state, ev.AttemptSucceeded(outcome, 12))
    for event in (ev.CommitCreated(create.commit), ev.Published(), ev.Tidied()):
        state, _ = decide(state, event)
    return state


def _checkpointed(vnodes, commit_id):
    file = CheckpointFile(FileRef("check", 1, 2, 3), vnodes, [commit_id] * len(vnodes))
    return Outcome([JobOutcome(0, [Manifest("token", 0, checkpoints={"p": file})])])


def test_a_checkpoint_is_planned_when_asked_for_even_without_records():
    """All that changed is due at once; the answer is the commit that holds it."""
    state = _committed_state()
    state, look = decide(state, ev.AskCheckpoint())
    assert look == ev.Wait(0)
    state, command = decide(state, _wake(3, 9))
    assert command.plan.records == 0
    assert command.plan.checkpoint_vnodes == {"p": [1, 3]}
    assert state.asked.answered == 0
    state = _run(state, command.plan, _checkpointed([1, 3], 2))
    assert (state.asked.answered, state.asked.commit) == (1, 2)
    _, command = decide(state, _wake(3, 9))
    assert isinstance(command, ev.Wait)


def test_a_checkpoint_of_what_has_one_is_the_last_commit():
    """Nothing is written; nothing is planned without records."""
    state = _committed_state()
    state, _ = decide(state, ev.AskCheckpoint())
    state, command = decide(state, _wake(3, 9))
    state = _run(state, command.plan, _checkpointed([1, 3], 2))
    state, _ = decide(state, ev.AskCheckpoint())
    state, command = decide(state, _wake(3, 9))
    assert isinstance(command, ev.Wait)
    assert (state.asked.answered, state.asked.commit) == (2, 2)


def test_a_checkpoint_asked_for_while_an_older_plan_stands_comes_with_the_next():
    """The plan object is what every attempt follows, so it cannot take on the request."""
    state = _committed_state()
    state, command = decide(state, _wake(5, 9))
    state, _ = decide(state, ev.PlanReady(command.plan))
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    state, again = decide(state, ev.AskCheckpoint())
    assert isinstance(again, ev.RunAttempt)
    state, create = decide(state, ev.AttemptSucceeded(_outcome(), 12))
    for event in (ev.CommitCreated(create.commit), ev.Published(), ev.Tidied()):
        state, _ = decide(state, event)
    assert state.asked.answered == 0
    state, command = decide(state, _wake(5, 9))
    assert command.plan.checkpoint_vnodes == {"p": [1, 3]}
    state = _run(state, command.plan, _checkpointed([1, 3], 3))
    assert (state.asked.answered, state.asked.commit) == (1, 3)


def test_a_paused_topology_keeps_the_request():
    """Nothing runs while paused; the checkpoint comes after the resume."""
    state, _ = decide(_committed_state(), ev.Pause())
    state, _ = decide(state, ev.AskCheckpoint())
    state, command = decide(state, _wake(3, 9))
    assert isinstance(command, ev.Wait)
    state, _ = decide(state, ev.Resume())
    _, command = decide(state, _wake(3, 9))
    assert command.plan.checkpoint_vnodes == {"p": [1, 3]}
