"""What is read ahead is what the next plan will say, and only where nothing can change it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore
from protocol_fakes import FakeDepot, FakeExecutor, fresh_state, make_actions, options

from atoll.microbatch import events as ev
from atoll.microbatch.commits.objects import GENESIS
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome

DONE = Outcome([JobOutcome(0, [Manifest("token", 0)])])
PIPED = {"topology__microbatch__pipeline": 1}
RECORDS_MAX = "depot__microbatch__max__records"


def wake(ends, sizes=None):
    """What two depot partitions hold."""
    return ev.Wake({"d": [0, 0]}, {"d": list(ends)}, 7, sizes or {})


def running(epoch, ends, **values):
    """A topology of two depot partitions that runs its first microbatch."""
    last = msgspec.structs.replace(GENESIS, ranges={"d": [(0, 0), (0, 0)]})
    state = fresh_state(epoch, last=last, options=options(**values))
    state, command = decide(state, wake(ends))
    state, _ = decide(state, ev.PlanReady(command.plan))
    return state


@pytest.fixture(scope="module")
def epoch():
    """Any."""
    return claim_epoch(MemoryStore(), "m")


def planned_next(state, create, seen):
    """The plan that follows when the commit was made."""
    for event in (ev.CommitCreated(create.commit), ev.Published(), ev.Tidied()):
        state, _ = decide(state, event)
    return decide(state, seen)[1].plan


@settings(max_examples=60, derandomize=True)
@given(
    most=st.integers(1, 5),
    bytes_max=st.integers(1, 40),
    ends=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    more=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_full_partitions_make_it_come_true(epoch, most, bytes_max, ends, more):
    """Where each has more than it gives, nothing that is appended meanwhile changes the guess."""

    def sizes(done, until):
        return {
            "d": [[(n + 1, 2) for n in range(at, end)] for at, end in zip(done, until, strict=True)]
        }

    given = {**PIPED, RECORDS_MAX: most, "depot__microbatch__max__bytes": bytes_max}
    state = running(epoch, ends, **given)
    done = [end for _, end in state.plan.ranges["d"]]
    succeeded = ev.AttemptSucceeded(DONE, 9, seen=wake(ends, sizes(done, ends)))
    state, create = decide(state, succeeded)
    left = [end - at for at, end in zip(done, ends, strict=True)]
    if create.ahead is None:
        assert all(each <= most for each in left)
        return
    assert create.ahead.id == create.commit.id + 1 == 2
    later = [end + grown for end, grown in zip(ends, more, strict=True)]
    plan = planned_next(state, create, wake(later, sizes(done, later)))
    if all(each > most for each in left) or not any(more):
        assert create.ahead.ranges == plan.ranges
    assert (create.ahead.timeline, create.ahead.watermarks) == (plan.timeline, plan.watermarks)


@pytest.mark.parametrize(
    ("ends", "values"),
    [((9, 9), {}), ((6, 6), PIPED), ((3, 2), PIPED)],
    ids=["not asked for", "the next one takes all", "nothing is left"],
)
def test_nothing_is_read_ahead(epoch, ends, values):
    """Without the option, and where what is appended meanwhile would belong to it."""
    state = running(epoch, ends, **{**values, RECORDS_MAX: 3})
    _, create = decide(state, ev.AttemptSucceeded(DONE, 9, seen=wake(ends)))
    assert create.ahead is None


def test_lost_records_are_told_by_the_next_look(epoch):
    """Not by a guess: the attempt that has succeeded commits."""
    state = running(epoch, (9, 9), **{**PIPED, RECORDS_MAX: 3})
    _, create = decide(state, ev.AttemptSucceeded(DONE, 9, seen=wake((2, 9))))
    assert isinstance(create, ev.CreateCommit)
    assert create.ahead is None


class Noting(FakeExecutor):
    """Notes what was stored when it was asked to read ahead."""

    def __init__(self, store):
        super().__init__()
        self.store = store
        self.found = []

    def read_ahead(self, plan):
        """What plans and commits there are."""
        super().read_ahead(plan)
        self.found.append(self.store.list("m/mb/plans"))


def test_no_plan_stands_for_it(epoch):
    """It begins before the commit is made, and leaves no object behind."""
    store, depot = MemoryStore(), FakeDepot()
    depot.end = 9
    given = options(**PIPED, **{RECORDS_MAX: 3})
    executor = Noting(store)
    claimed = claim_epoch(store, "m")
    actions = make_actions(store, claimed, executor, depot, options=given)
    state, event = fresh_state(claimed, options=given), None
    for _ in range(30):
        event = actions.look(state.last) if event is None else event
        state, command = decide(state, event)
        event = None if isinstance(command, ev.Wait) else actions.perform(command)
    assert [(plan.id, plan.ranges["d"]) for plan in executor.ahead] == [(2, [(3, 6)])]
    assert [len(each) for each in executor.found] == [1]
    assert [each[0] for each in executor.runs] == [1, 2, 3]


def test_depots_that_cannot_be_looked_at_fail_nothing(epoch, monkeypatch):
    """The attempt has succeeded; the next look says what is wrong."""
    store, depot = MemoryStore(), FakeDepot()
    depot.end = 9
    given = options(**PIPED, **{RECORDS_MAX: 3})
    claimed = claim_epoch(store, "m")
    actions = make_actions(store, claimed, FakeExecutor(), depot, options=given)
    state = fresh_state(claimed, options=given)
    state, command = decide(state, actions.look(state.last))
    state, command = decide(state, actions.perform(command))

    def refuse():
        raise OSError("no such device")

    monkeypatch.setattr(depot, "end_offsets", refuse)
    event = actions.perform(command)
    assert isinstance(event, ev.AttemptSucceeded)
    assert event.seen is None
    _, command = decide(state, event)
    assert isinstance(command, ev.CreateCommit)


def test_whoever_cannot_read_ahead_commits_all_the_same(epoch, monkeypatch):
    """There may be no thread left."""
    store, executor = MemoryStore(), FakeExecutor()
    given = options(**PIPED, **{RECORDS_MAX: 3})
    actions = make_actions(store, claim_epoch(store, "m"), executor, FakeDepot(), options=given)
    state = running(epoch, (9, 9), **{**PIPED, RECORDS_MAX: 3})
    _, create = decide(state, ev.AttemptSucceeded(DONE, 9, seen=wake((9, 9))))

    def refuse(_plan):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(executor, "read_ahead", refuse)
    assert isinstance(actions.perform(create), ev.CommitCreated)


def test_a_failed_attempt_reads_nothing_ahead(epoch):
    """Only what succeeded is about to commit."""
    state = running(epoch, (9, 9), **{**PIPED, RECORDS_MAX: 3})
    _, command = decide(state, ev.AttemptFailed(ActorFailure("E-TEST", "it broke")))
    assert isinstance(command, ev.Wait)
