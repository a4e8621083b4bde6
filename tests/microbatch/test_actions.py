"""What a coordinator does, without threads: what is adopted, what fences, what is repeated."""

from __future__ import annotations

import msgspec
import pytest
from protocol_fakes import FakeExecutor, FaultyStore, fresh_state, make_actions

from atoll.errors import FencedError, StorageError
from atoll.microbatch import events as ev
from atoll.microbatch.commits.history import (
    commit_objects,
    latest_commit,
    plan_objects,
    read_commit,
)
from atoll.microbatch.commits.objects import GENESIS, AppendedRows, decode_plan, encode
from atoll.microbatch.commits.rollback import complete_rollback
from atoll.microbatch.commits.timelines import timeline_objects
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.pstate.store.history import FileRef

ROWS = [AppendedRows("out", FileRef("rows", 1, 2, 3))]


class Life:
    """One coordinator, driven by hand: each step performs a command and decides on what came."""

    def __init__(self, store, depot, **changes):
        executor = changes.pop("executor", None) or FakeExecutor()
        self.epoch = claim_epoch(store, "m")
        self.executor = executor
        self.actions = make_actions(store, self.epoch, executor, depot, **changes)
        self.state = fresh_state(self.epoch)
        self.command = ev.Wait(0)

    def step(self):
        """Perform the command, or look when it is to wait; the event."""
        if isinstance(self.command, ev.Wait):
            idle = self.state.step == ev.Step.IDLE
            event = self.actions.look(self.state.last) if idle else ev.Retry()
        else:
            event = self.actions.perform(self.command)
        self.state, self.command = decide(self.state, event)
        return event

    def until(self, kind):
        """Go on until a command of this kind is next."""
        for _ in range(50):
            if isinstance(self.command, kind):
                return self.command
            self.step()
        raise AssertionError(f"no {kind.__name__} came")


def test_a_microbatch_leaves_a_plan_and_a_commit(store, depot):
    """Without a thread and without a clock of its own."""
    life = Life(store, depot)
    life.until(ev.Tidy)
    life.step()
    assert plan_objects(store, "m", "mb").numbers() == [1]
    commit = read_commit(store, "m", "mb", 1)
    assert (commit.ranges, commit.tokens) == ({"d": [(0, 3)]}, ["1-1-1"])
    assert commit.committed_at_ms == 7
    assert life.executor.forgotten == [1]
    assert store.settled == []


def test_a_plan_found_is_used_and_settled(store, depot):
    """The life that made it may have died before it was durable."""
    first = Life(store, depot)
    first.until(ev.RunAttempt)
    depot.end = 9
    second = Life(store, depot)
    run = second.until(ev.RunAttempt)
    assert run.plan.epoch == first.epoch.number
    assert run.plan.ranges == {"d": [(0, 3)]}
    assert store.settled == [plan_objects(store, "m", "mb").name(1)]


def test_a_commit_of_an_earlier_life_is_adopted_and_settled(store, depot):
    """It was first, so it stands: what goes on from it is its tokens, not ours."""
    first = Life(store, depot)
    theirs = first.until(ev.CreateCommit).commit
    second = Life(store, depot)
    second.until(ev.CreateCommit)
    name = commit_objects(store, "m", "mb").name(1)
    store.create(name, _framed(store, theirs))  # the earlier life did not look once more
    event = second.step()
    assert event == ev.CommitCreated(theirs)
    assert name in store.settled
    second.until(ev.Tidy)
    assert second.state.last.tokens == ["1-1-1"]
    assert second.executor.runs == [(1, 2, 2)], "the earlier life may have used version 1"
    assert isinstance(first.step(), ev.CommitRefused)
    assert isinstance(first.command, ev.Halt)


def test_a_commit_of_a_later_life_fences(store, depot):
    """Even one that did not look at its epoch in time, and it can say who it was."""
    first = Life(store, depot)
    first.until(ev.CreateCommit)
    second = Life(store, depot)
    second.until(ev.Publish)
    held = first.actions._create_commit  # past the look at the epoch
    with pytest.raises(FencedError) as raised:
        held(first.command)
    assert "fenced by process" in raised.value.message
    assert read_commit(store, "m", "mb", 1).epoch == second.epoch.number


@pytest.mark.parametrize(
    "stops_at", [ev.CreatePlan, ev.RunAttempt, ev.CreateCommit, ev.Deliver, ev.Publish, ev.Tidy]
)
def test_who_was_stopped_at_any_step_changes_nothing_later(store, depot, stops_at):
    """A later life makes several commits meanwhile; the first finds out with its next step."""
    seen = []
    executor = FakeExecutor(appends=ROWS)

    def deliver(commit):
        seen.append(commit)
        return {}

    first = Life(store, depot, executor=executor, publish=seen.append, deliver=deliver)
    first.until(stops_at)
    seen.clear()
    second = Life(store, depot)
    if stops_at in (ev.Deliver, ev.Publish, ev.Tidy):
        second.state = fresh_state(second.epoch, last=read_commit(store, "m", "mb", 1))
    for _ in range(4):
        depot.end += 1
        second.until(ev.Tidy)
        second.step()
    before = {name: store.read(name) for name in store.list("")}
    runs = list(executor.runs)
    event = first.step()
    assert isinstance(event, ev.CommitRefused)
    assert "process" in event.failure.message
    assert event.failure.context["fenced_by"]
    assert isinstance(first.command, ev.Halt)
    assert {name: store.read(name) for name in store.list("")} == before
    assert (seen, executor.runs) == ([], runs)


def test_an_attempt_that_was_cancelled_by_a_fence_says_so(store, depot):
    """What it failed with is not what matters."""
    executor = FakeExecutor(hangs=True)
    life = Life(store, depot, executor=executor)
    life.until(ev.RunAttempt)
    check, looks = life.epoch.check, []

    def fenced_meanwhile():
        looks.append(1)
        if len(looks) > 1:
            claim_epoch(store, "m")
        check()

    life.epoch.check = fenced_meanwhile
    executor.cancel()
    assert isinstance(life.step(), ev.CommitRefused)


@pytest.mark.parametrize("step", ["plans", "commits"])
def test_a_full_disk_is_waited_out(store, depot, step):
    """However long it lasts; then it goes on, with the same records once planned."""
    life = Life(store, depot)
    store.refuse_before.add(step)
    failed = 0
    while failed < 30:
        failed += isinstance(life.step(), ev.AttemptFailed)
    assert life.state.condition == ev.Condition.RUNNING
    assert life.state.failure.code == StorageError.code
    store.refuse_before.clear()
    life.until(ev.Tidy)
    assert read_commit(store, "m", "mb", 1).ranges == {"d": [(0, 3)]}
    assert life.state.failure is None


@pytest.mark.parametrize("step", ["plans", "commits"])
def test_an_object_whose_creation_was_said_to_have_failed_is_found_and_settled(store, depot, step):
    """A failed fsync of the folder leaves the name there; it is used only when it is durable."""
    life = Life(store, depot)
    store.refuse_after.add(step)
    life.until(ev.Tidy)
    assert life.state.last.tokens == ["1-1-1"]
    assert store.settled == [f"m/mb/{step}/{1:020d}"]
    assert not store.refuse_after


def test_what_a_commit_appends_is_delivered_before_it_is_published(store, depot):
    """And again, when that fails, for as long as it does."""
    calls = []
    refusals = [StorageError("full")] * 12

    def deliver(commit):
        calls.append(("deliver", commit.id))
        if refusals:
            raise refusals.pop()
        return {}

    life = Life(
        store,
        depot,
        executor=FakeExecutor(appends=ROWS),
        deliver=deliver,
        publish=lambda commit: calls.append(("publish", commit.id)),
    )
    life.until(ev.Tidy)
    assert calls == [("deliver", 1)] * 13 + [("publish", 1)]


@pytest.mark.parametrize("asleep_in", ["commits", "timelines"])
def test_whoever_is_fenced_while_it_goes_back_shows_and_drops_nothing(
    store, depot, monkeypatch, asleep_in
):
    """A later life begins while one of the rollback's objects is being made."""
    first = Life(store, depot)
    first.until(ev.Tidy)
    first.step()
    create = store.create
    seen = []
    first.actions.publish = seen.append

    def slow(name, data):
        if name.split("/")[-2] == asleep_in:
            monkeypatch.undo()
            second = Life(store, depot)
            second.state = fresh_state(second.epoch, last=read_commit(store, "m", "mb", 1))
            depot.end += 1
            second.until(ev.CreatePlan)
            second.until(ev.Publish if asleep_in == "commits" else ev.Wait)
        create(name, data)

    monkeypatch.setattr(store, "create", slow)
    event = first.actions.perform(ev.GoBack(1, 0, False, first.state.last))
    assert isinstance(event, ev.CommitRefused | ev.RollBackRefused)
    assert isinstance(first.actions.look(first.state.last), ev.CommitRefused)
    assert seen == []
    if asleep_in == "commits":
        assert commit_objects(store, "m", "mb").numbers() == [1, 2]


def test_a_rollback_slept_through_many_commits_takes_nothing_back(store, depot, monkeypatch):
    """The id that its mark would take was committed, and dropped since, by a later life."""
    first = Life(store, depot)
    first.until(ev.Tidy)
    first.step()
    commits = commit_objects(store, "m", "mb")
    create = store.create

    def slow(name, data):
        if name == commits.name(2):
            monkeypatch.undo()
            for number in (2, 3, 4):  # as a later life would
                commits.create(number, encode(msgspec.structs.replace(GENESIS, id=number)))
            store.delete(commits.name(2))
        create(name, data)

    monkeypatch.setattr(store, "create", slow)
    answer = first.actions.perform(ev.GoBack(1, 0, False, first.state.last))
    assert isinstance(answer, ev.RollBackRefused)
    assert commits.numbers() == [1, 3, 4]
    assert not timeline_objects(store, "m", "mb").exists(1)


def test_a_rollback_that_died_half_way_is_completed(store, depot):
    """Its mark is there, its timeline is not: nothing changed yet, and the next life goes on."""
    life = Life(store, depot)
    life.until(ev.Tidy)
    life.step()
    store.refuse_before.add("timelines")
    answer = life.actions.perform(ev.GoBack(1, 0, False, life.state.last))
    assert isinstance(answer, ev.RollBackRefused)
    assert latest_commit(store, "m", "mb").id == 1
    store.refuse_before.clear()
    complete_rollback(store, "m", "mb")
    assert (latest_commit(store, "m", "mb").id, latest_commit(store, "m", "mb").timeline) == (0, 1)
    complete_rollback(store, "m", "mb")  # and again: nothing more happens
    assert not timeline_objects(store, "m", "mb").exists(2)


def test_a_request_to_go_back_is_answered_when_its_first_reply_was_lost(store, depot):
    """The rollback took effect; who asks again for the same has what was wanted."""
    life = Life(store, depot)
    life.until(ev.Tidy)
    life.step()
    store.refuse_after.add("timelines")
    lost = life.actions.perform(ev.GoBack(1, 0, False, life.state.last))
    assert isinstance(lost, ev.RollBackRefused)
    again = life.actions.perform(ev.GoBack(2, 0, False, life.state.last))
    assert isinstance(again, ev.RolledBack)
    assert (again.ticket, again.failure, again.commit.timeline) == (2, None, 1)


def test_looking_at_a_depot_that_fails_is_tried_again(store, depot):
    """It costs a wait, not the coordinator."""
    life = Life(store, depot)
    good, depot.end_offsets = depot.end_offsets, _refusing
    assert isinstance(life.step(), ev.AttemptFailed)
    assert isinstance(life.command, ev.Wait)
    depot.end_offsets = good
    life.until(ev.Publish)


def _refusing():
    raise StorageError("the disk refused")


def _framed(store, commit):
    """The commit as it lies in a store."""
    other = FaultyStore()
    commit_objects(other, "m", "mb").create(commit.id, encode(commit))
    return other.read(commit_objects(other, "m", "mb").name(commit.id))


class Littering(FakeExecutor):
    """Each run writes a log before it says how it went; the first ones fail."""

    def __init__(self, store, failures):
        super().__init__()
        self.store = store
        self.failures = failures

    def run(self, plan, epoch, version, placement, timeout_seconds):
        """Leave a file, named as actors name theirs."""
        self.store.write(f"m/mb/logs/p/{plan.id:020d}-{epoch}-{version}-0-t.arrow", b"x")
        outcome = super().run(plan, epoch, version, placement, timeout_seconds)
        if len(self.runs) <= self.failures:
            raise AttemptError(ActorFailure("E-TEST", "it broke"))
        return outcome


@pytest.mark.parametrize("failures", [0, 2])
def test_what_failed_attempts_left_is_dropped_with_the_next_commit(store, depot, failures):
    """Those of this life, and of the one before it that died in an attempt; listed only then."""
    dead = Life(store, depot, executor=Littering(store, 9))
    dead.until(ev.RunAttempt)
    dead.step()
    life = Life(store, depot, executor=Littering(store, failures))
    life.state, life.command = decide(
        life.state, ev.Begin(decode_plan(plan_objects(store, "m", "mb").read(1)), (GENESIS,))
    )
    life.until(ev.Tidy)
    assert len(store.list("m/mb/logs")) == 2 + failures
    life.step()
    assert store.list("m/mb/logs") == []
    assert not life.actions.littered
    depot.end += 1
    life.until(ev.Tidy)
    life.step()
    left = store.list("m/mb/logs")
    assert left == [f"m/mb/logs/p/{2:020d}-2-1-0-t.arrow"], "it was not looked for again"
