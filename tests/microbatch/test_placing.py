"""Another placement: tried between two microbatches, kept when one committed there, else not."""

from __future__ import annotations

import dataclasses
import threading

import msgspec
import pytest
from protocol_fakes import FakeExecutor, fresh_state, make_actions, options

from atoll.errors import FencedError, StateError, StorageError, WaitTimeoutError
from atoll.microbatch import events as ev
from atoll.microbatch.commits.objects import GENESIS, AppendedRows
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.loop import TopologyLoop
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome
from atoll.placement.mapping import Mapping
from atoll.placement.placement import Placement
from atoll.pstate.store.history import FileRef

FAILURE = ActorFailure("E-TEST", "it broke")
ROWS = [AppendedRows("out", FileRef("rows", 1, 2, 3))]
OLD = Placement(1, (0,), {"p": Mapping((0, 0, 0, 0))})
NEW = Placement(2, (0, 1), {"p": Mapping((0, 0, 1, 1))})


class Recorder(FakeExecutor):
    """Remembers where it ran; fails on the placements that a test says."""

    def __init__(self, *, fails_on=()):
        super().__init__()
        self.fails_on = fails_on
        self.placements = []

    def run(self, plan, epoch, version, placement, timeout_seconds):
        """As without placements."""
        self.placements.append(placement)
        if placement in self.fails_on:
            raise AttemptError(FAILURE)
        return super().run(plan, epoch, version, placement, timeout_seconds)


@pytest.fixture
def epoch(store):
    """The life of the coordinator."""
    return claim_epoch(store, "m")


@pytest.fixture
def idle(epoch):
    """A topology that runs on the old placement and has nothing to do."""
    return dataclasses.replace(fresh_state(epoch), placement=OLD)


@pytest.fixture
def start(store, depot, epoch, idle, run_loop):
    """Starts a loop on the old placement."""

    def begin(executor, **changes):
        state = dataclasses.replace(idle, options=changes.get("options", idle.options))
        return run_loop(make_actions(store, epoch, executor, depot, **changes), state)

    return begin


def _wake(end):
    return ev.Wake({"d": [0]}, {"d": [end]}, now_ms=7)


def _attempted(state, event):
    """The attempt that an event leads to, through the plan if there is none yet."""
    state, command = decide(state, event)
    if isinstance(command, ev.CreatePlan):
        state, command = decide(state, ev.PlanReady(command.plan))
    assert isinstance(command, ev.RunAttempt), command
    return state, command


def _committed(state):
    state, create = decide(state, ev.AttemptSucceeded(Outcome([JobOutcome(0, [])]), 9))
    state, _ = decide(state, ev.CommitCreated(create.commit))
    return decide(state, ev.Published())[0]


def test_an_idle_topology_makes_a_microbatch_without_records_to_try_it(idle):
    """Who asked need not wait for records to come."""
    state, command = decide(idle, ev.MoveTo(1, NEW))
    assert (command, state.placement, state.placed.ticket) == (ev.Wait(0), OLD, 0)
    state, run = _attempted(state, _wake(0))
    assert (run.placement, run.plan.records) == (NEW, 0)
    state = _committed(state)
    assert (state.placement, state.placing, state.placed) == (NEW, None, ev.Answer(1))
    state, _ = decide(state, ev.Tidied())
    assert decide(state, _wake(0))[1] == ev.Wait(idle.options.empty_sleep_millis)
    assert _attempted(state, _wake(3))[1].placement == NEW


def test_the_running_microbatch_ends_where_it_began(idle):
    """A request that comes while an attempt runs is for the next one."""
    state, run = _attempted(idle, _wake(3))
    assert run.placement == OLD
    state, create = decide(state, ev.AttemptSucceeded(Outcome([JobOutcome(0, [])]), 9))
    state, _ = decide(state, ev.CommitCreated(create.commit))
    state = dataclasses.replace(state, placing=ev.Placing(1, NEW))  # came while it was published
    state, _ = decide(state, ev.Published())
    assert (state.placement, state.placed.ticket) == (OLD, 0)
    state, _ = decide(state, ev.Tidied())
    assert _attempted(state, _wake(3))[1].placement == NEW


def test_when_the_first_attempt_fails_the_old_placement_stands(idle):
    """The microbatch is tried again where it ran before, and who asked is told why."""
    state, _ = decide(idle, ev.MoveTo(1, NEW))
    state, run = _attempted(state, _wake(3))
    state, wait = decide(state, ev.AttemptFailed(FAILURE))
    assert isinstance(wait, ev.Wait)
    assert (state.placement, state.placing, state.placed) == (OLD, None, ev.Answer(1, FAILURE))
    state, again = decide(state, ev.Retry())
    assert (again.plan, again.version, again.placement) == (run.plan, 2, OLD)


def test_a_microbatch_that_keeps_failing_is_tried_elsewhere_at_once(idle):
    """Between two attempts the request ends the wait: the failure may be the old place's."""
    state, _ = _attempted(idle, _wake(3))
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    state, run = decide(state, ev.MoveTo(1, NEW))
    assert (run.version, run.placement) == (2, NEW)
    assert _committed(state).placed == ev.Answer(1)


@pytest.mark.parametrize("condition", [ev.Condition.PAUSED, ev.Condition.FAILED])
def test_a_topology_that_rests_takes_it_at_once(idle, condition):
    """It stays paused or failed, and will go on there."""
    state = dataclasses.replace(idle, condition=condition)
    state, _ = decide(state, ev.MoveTo(1, NEW))
    assert (state.condition, state.placement, state.placed) == (condition, NEW, ev.Answer(1))
    state, _ = decide(state, ev.Resume())
    assert _attempted(state, _wake(3))[1].placement == NEW


def test_pausing_settles_a_request_that_no_microbatch_has_tried(idle):
    """Nobody waits for a microbatch that will not run."""
    state, _ = decide(idle, ev.MoveTo(1, NEW))
    state, _ = decide(state, ev.Pause())
    assert (state.placement, state.placed) == (NEW, ev.Answer(1))


def test_a_later_request_takes_the_place_of_one_not_tried(idle):
    """Only the last one counts, and is answered."""
    state, _ = decide(idle, ev.MoveTo(1, NEW))
    state, _ = decide(state, ev.MoveTo(2, OLD))
    state, run = _attempted(state, _wake(0))
    assert run.placement == OLD
    assert _committed(state).placed == ev.Answer(2)


def test_the_loop_returns_when_the_first_microbatch_has_committed(start, depot):
    """With records and without, again and again."""
    executor = Recorder()
    loop = start(executor)
    loop.wait_processed(depot.end)
    for placement in (NEW, OLD, NEW):
        before = loop.published.id
        loop.place(placement)
        assert loop.published.id == before + 1
        assert executor.placements[-1] == placement
        assert loop.status.state.placement == placement


def test_the_loop_says_why_the_old_placement_stands(start, depot):
    """The failure as the attempt said it; the microbatch then commits where it ran before."""
    executor = Recorder(fails_on=(NEW,))
    loop = start(executor, options=options(topology__microbatch__retry__delay__max__millis=10))
    loop.wait_processed(depot.end)
    with pytest.raises(StateError, match="it broke"):
        loop.place(NEW)
    depot.end += 2
    loop.notify_append()
    loop.wait_processed(depot.end)
    first, tried, *later = executor.placements
    assert (first, tried) == (OLD, NEW)
    assert all(each == OLD for each in later)


def test_who_waits_too_long_takes_the_request_back(start, depot):
    """Also when it takes effect later: the topology goes back to where it was."""
    executor = Recorder()
    loop = start(executor)
    loop.wait_processed(depot.end)
    executor.hangs = True
    depot.end += 1
    loop.notify_append()
    assert executor.running.wait(60)
    with pytest.raises(WaitTimeoutError):
        loop.place(NEW, timeout_seconds=0.05)
    executor.hangs = False
    executor.cancelled.set()
    loop.place(OLD)
    assert loop.status.state.placement == OLD


def test_a_fenced_topology_moves_nowhere(start, depot, store):
    """Who took over decides."""
    loop = start(Recorder())
    loop.wait_processed(depot.end)
    claim_epoch(store, "m")
    with pytest.raises(FencedError):
        loop.place(NEW)


def test_a_life_that_still_owes_rows_is_recovering(store, depot, epoch, idle):
    """Until they are delivered it runs nothing, and so nothing of it can be moved."""
    full, delivered = threading.Event(), threading.Event()

    def deliver(commit):
        if not full.is_set():
            full.set()
            raise StorageError("no space left")
        assert delivered.wait(60)
        return {}

    owed = msgspec.structs.replace(GENESIS, id=1, appends=ROWS)
    actions = make_actions(store, epoch, Recorder(), depot, deliver=deliver)
    loop = TopologyLoop(actions, idle, first=ev.Begin(None, (owed,)))
    loop.start()
    try:
        assert full.wait(60)
        assert loop.recovering
        delivered.set()
        loop.wait_processed(depot.end)
        assert not loop.recovering
    finally:
        delivered.set()
        loop.close()


def test_a_manifest_of_nothing_is_a_commit(idle):
    """An actor whose unit owns nothing reports nothing."""
    state, _ = decide(idle, ev.MoveTo(1, NEW))
    state, _ = _attempted(state, _wake(0))
    outcome = Outcome([JobOutcome(0, [Manifest("t", 1)])])
    _, create = decide(state, ev.AttemptSucceeded(outcome, 9))
    assert create.commit.tokens == ["t"]


def test_what_is_no_trial_stands_at_once(idle):
    """Also while an attempt runs on the old placement, and whatever becomes of it."""
    state, run = _attempted(idle, _wake(3))
    assert run.placement == OLD
    state, _ = decide(dataclasses.replace(state), ev.AttemptFailed(FAILURE))
    state, command = decide(state, ev.MoveTo(1, NEW, trial=False))
    assert (state.placement, state.placing, state.placed) == (NEW, None, ev.Answer(1))
    assert isinstance(command, ev.RunAttempt)
    assert command.placement == NEW
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    assert state.placement == NEW
    state, run = decide(state, ev.Retry())
    assert run.placement == NEW


def test_what_is_no_trial_goes_before_a_trial(idle):
    """Nobody waits for the trial any more."""
    state, _ = _attempted(decide(idle, ev.MoveTo(1, NEW))[0], _wake(0))
    state, _ = decide(state, ev.AttemptFailed(FAILURE))
    state, _ = decide(
        dataclasses.replace(state, placing=ev.Placing(2, NEW)), ev.MoveTo(3, OLD, trial=False)
    )
    assert (state.placement, state.placing, state.placed) == (OLD, None, ev.Answer(3))


class Preparing(Recorder):
    """Says what was got ready, and can be unable to."""

    def __init__(self, *, fails=False):
        super().__init__()
        self.fails = fails

    def prepare(self, placement, commit):
        """Beside the attempts."""
        self.placements.append(("ready", placement, commit.id))
        if self.fails:
            raise AttemptError(FAILURE)


@pytest.mark.parametrize("fails", [False, True])
def test_what_can_be_got_ready_is_before_the_move(start, fails):
    """Whether it could be or not; what is no trial is not waited for."""
    executor = Preparing(fails=fails)
    loop = start(executor)
    loop.place(NEW)
    (ready,) = [each for each in executor.placements if isinstance(each, tuple)]
    assert ready[:2] == ("ready", NEW)
    assert executor.placements.index(ready) < executor.placements.index(NEW)
    loop.place(OLD, trial=False)
    assert [each for each in executor.placements if isinstance(each, tuple)] == [ready]
