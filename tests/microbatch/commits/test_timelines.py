"""Which commits count after rollbacks, what a rollback refuses, and what it may never do."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore

from atoll.microbatch import events as ev
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.history import commit_objects, latest_commit, read_commit
from atoll.microbatch.commits.objects import (
    GENESIS,
    AppendedRows,
    Branch,
    Commit,
    Plan,
    decode_commit,
    encode,
)
from atoll.microbatch.commits.rollback import Follower
from atoll.microbatch.commits.timelines import Timelines, create_timeline, read_timelines
from atoll.microbatch.control.options import Options
from atoll.microbatch.coordinator import decide
from atoll.microbatch.outcome import ActorFailure
from atoll.pstate.store.history import FileRef
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects

FAILURE = ActorFailure("E-TEST", "it broke")


def _branch(branch, horizon=0):
    return Branch(branch, 1, 0, 1, horizon)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), max_size=12))
def test_an_id_lies_where_a_plain_replay_puts_it(life):
    """Commits and rollbacks in any order, against a list that is cut off and appended to."""
    line: list[int] = []  # the timeline of each id, from 1 on
    timelines = Timelines()
    seen = {0: ()}
    for commits, back in life:
        line += [timelines.number] * commits
        branch = max(len(line) - back, 0)
        del line[branch:]
        timelines = Timelines((*timelines.branches, _branch(branch)))
        seen[timelines.number] = tuple(line)
        assert [timelines.of(number) for number in range(1, len(line) + 1)] == line
        assert timelines.of(len(line) + 1) == timelines.number
    for earlier, then in seen.items():
        shared = timelines.branch_since(earlier)
        if earlier == timelines.number:
            assert shared is None
            continue
        assert list(then[:shared]) == line[: min(shared, len(then))]
        cut = timelines.upto(earlier)
        assert [cut.of(number) for number in range(1, len(then) + 1)] == list(then)


def _commit(number, timeline=0, **changes):
    made = Commit(number, 1, 1, 0, {"d": [(0, number)]}, 1, number, [], {}, 1)
    return msgspec.structs.replace(made, timeline=timeline, horizon=0, **changes)


@pytest.mark.parametrize("memory", [False, True])
def test_the_newest_timeline_is_followed(tmp_path, memory):
    """The branch is the last commit until the new line has its own; late ones count for nothing."""
    store = MemoryStore() if memory else LocalStore(tmp_path)

    def make(number, timeline=0):
        objects = commit_objects(store, "m", "t", timeline)
        objects.create(number, encode(_commit(number, timeline)))

    for number in range(1, 6):
        make(number)
    assert latest_commit(store, "m", "t").id == 5
    create_timeline(store, "m", "t", 1, Branch(3, 1, 0, 2, 1))
    head = latest_commit(store, "m", "t", hint=5)
    assert (head.id, head.timeline, head.floor, head.readable_from) == (3, 1, 2, 1)
    make(6)  # a stopped coordinator that continues
    assert latest_commit(store, "m", "t", hint=5).id == 3
    make(4, 1)
    head = latest_commit(store, "m", "t", hint=3)
    assert (head.id, head.timeline) == (4, 1)
    assert read_commit(store, "m", "t", 3).timeline == 0
    create_timeline(store, "m", "t", 2, Branch(0, 1, 0, 1, 0))
    head = latest_commit(store, "m", "t", hint=4)
    assert (head.id, head.timeline, head.ranges) == (0, 2, {})
    assert read_timelines(store, "m", "t", 1).number == 1


def test_a_commit_of_an_older_version_is_read():
    """Without appends, timeline and horizon: only the state as of itself is known to be kept."""
    old = msgspec.to_builtins(_commit(7))
    for name in ("appends", "timeline", "horizon"):
        del old[name]
    commit = decode_commit(msgspec.msgpack.encode(old))
    assert (commit.appends, commit.timeline, commit.readable_from) == ([], 0, 7)


def _state(**changes):
    state = ev.State(1, Options(), _commit(9), {}, Checkpoints({}))
    last = msgspec.structs.replace(state.last, horizon=7)
    return dataclasses.replace(state, last=last, **changes)


def _plan(number):
    return Plan(number, 1, 0, {"d": [(9, 12)]}, {})


@pytest.mark.parametrize("to", [6, 10])
def test_out_of_range_is_refused_and_work_goes_on(to):
    """The answer names the range; nothing else changes."""
    state = _state()
    after, command = decide(state, ev.RollBack(1, to))
    assert after == dataclasses.replace(state, answer=after.answer)
    assert after.answer.ticket == 1
    assert "7 to 9" in after.answer.failure.hint
    assert command == ev.Wait(0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"condition": ev.Condition.PAUSED},
        {"step": ev.Step.PROCESS, "plan": _plan(10), "failures": 2, "failure": FAILURE},
        {
            "step": ev.Step.PROCESS,
            "plan": _plan(10),
            "condition": ev.Condition.FAILED,
            "failure": FAILURE,
            "blamed": 10,
        },
    ],
)
def test_a_rollback_between_attempts(changes):
    """Plan and failures are gone, the topology is paused, and the new line goes on from there."""
    state, command = decide(_state(**changes), ev.RollBack(4, 8))
    assert command == ev.GoBack(4, 8, False, state.last)
    head = msgspec.structs.replace(_commit(8), timeline=1, horizon=7)
    state, wait = decide(state, ev.RolledBack(head, Checkpoints({}), 4))
    assert isinstance(wait, ev.Wait)
    assert (state.step, state.condition) == (ev.Step.IDLE, ev.Condition.PAUSED)
    assert (state.plan, state.failure, state.failures, state.blamed) == (None, None, 0, 0)
    assert state.answer == ev.Answer(4)
    state, _ = decide(state, ev.Resume())
    state, create = decide(state, ev.Wake({"d": [0]}, {"d": [12]}, 5))
    assert (create.plan.id, create.plan.timeline) == (9, 1)
    assert create.plan.ranges == {"d": [(8, 12)]}


def test_no_rollback_while_a_commit_is_delivered():
    """The commit stands and its rows are under way."""
    state = _state(step=ev.Step.PUBLISH, commit=_commit(10), owed=(_commit(10),))
    state, command = decide(state, ev.RollBack(1, 8))
    assert isinstance(command, ev.Deliver)
    assert "delivered" in state.answer.failure.message


def test_a_rollback_of_somebody_else_ends_any_step():
    """Also between the commit object and its publication."""
    state = _state(step=ev.Step.COMMIT, plan=_plan(10), commit=_commit(10))
    state, _ = decide(state, ev.RolledBack(_commit(8, 1), Checkpoints({})))
    assert (state.step, state.commit, state.plan) == (ev.Step.IDLE, None, None)
    assert state.answer == ev.Answer()


@pytest.fixture
def appended(tmp_path):
    """Three commits, the last two of which appended rows; and their follower."""
    store = LocalStore(tmp_path)
    files = [FileRef("x", 1, 1, rows) for rows in (0, 5, 7)]
    for number, file in enumerate(files, start=1):
        rows = [AppendedRows("out", file)] if number > 1 else []
        payload = encode(_commit(number, appends=rows))
        commit_objects(store, "m", "t").create(number, payload)
    return store, Follower(store, "m", "t", 0, {}, ("d",))


def test_appended_rows_stand_in_the_way(appended):
    """They are counted by depot; with the flag the rollback goes on, and names them no more."""
    store, follower = appended
    last = latest_commit(store, "m", "t")
    refused = follower.go_back(ev.GoBack(3, 1, False, last), 1, 0)
    assert refused.ticket == 3
    assert refused.failure.context == {"out": "12"}
    assert "--keep-appended" in refused.failure.hint
    assert not follower.is_behind()
    assert follower.go_back(ev.GoBack(3, 1, True, last), 1, 0) is None
    assert follower.is_behind()
    event = follower.follow(ev.GoBack(3, 1, True, last))
    assert (event.commit.id, event.commit.timeline, event.commit.appends) == (1, 1, [])
    assert (event.ticket, event.failure) == (3, None)
    assert not follower.is_behind()


def test_a_rollback_to_the_last_commit_owes_nothing_again(appended):
    """What the commit gone back to appended, it appended as its own timeline's."""
    store, follower = appended
    last = latest_commit(store, "m", "t")
    assert last.appends
    assert follower.go_back(ev.GoBack(1, 3, False, last), 1, 0) is None
    assert follower.follow().commit.appends == []


def test_the_faster_of_two_coordinators_goes_back(appended):
    """The number is taken once; the slower one is refused and follows."""
    store, follower = appended
    other = Follower(store, "m", "t", 0, {}, ("d",))
    last = latest_commit(store, "m", "t")
    assert follower.go_back(ev.GoBack(1, 2, True, last), 1, 0) is None
    late = ev.GoBack(1, 1, True, last)
    assert other.go_back(late, 2, 0) is None  # a timeline began: follow says whose
    assert other.is_behind()
    event = other.follow(late)
    assert "elsewhere first" in event.failure.message
    assert event.commit.id == 2


def test_a_request_that_meets_a_rollback_is_answered(appended):
    """Whoever asked must not wait for ever: it leads where it was to lead, or it is refused."""
    store, follower = appended
    last = latest_commit(store, "m", "t")
    assert follower.go_back(ev.GoBack(1, 2, True, last), 1, 0) is None  # its reply is lost
    state = _state(step=ev.Step.PROCESS, plan=_plan(10))
    for to, refused in ((2, False), (1, True)):
        event = follower.follow(ev.GoBack(5, to, True, last))
        after, _ = decide(state, event)
        assert after.last.id == 2
        assert after.answer.ticket == 5
        assert (after.answer.failure is not None) is refused


def test_genesis_gets_its_starts_back(tmp_path):
    """Going back to 0 begins where the topology once began, not at the oldest record."""
    store = LocalStore(tmp_path)
    create_timeline(store, "m", "t", 1, _branch(0))
    follower = Follower(store, "m", "t", 0, {"d": [4, 5]}, ("d",))
    commit = follower.follow().commit
    assert commit.ends() == {"d": [4, 5]}
    assert commit == msgspec.structs.replace(
        GENESIS, ranges={"d": [(4, 4), (5, 5)]}, timeline=1, horizon=0
    )
    assert NumberedObjects(store, "m/t/timelines").numbers() == [1]
