"""The loop's thread: requests while it waits or works, and being fenced in the middle of it."""

from __future__ import annotations

import dataclasses
import threading
import time

import msgspec
import pytest
from protocol_fakes import FakeExecutor, fresh_state, make_actions, options

from atoll.errors import (
    FencedError,
    StorageError,
    TopologyFailedError,
    UsageError,
    WaitTimeoutError,
)
from atoll.microbatch import events as ev
from atoll.microbatch.commits.objects import GENESIS, AppendedRows
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.pstate.store.history import FileRef

ROWS = [AppendedRows("out", FileRef("rows", 1, 2, 3))]
FENCED_SECONDS_MAX = 30.0


@pytest.fixture
def start(store, depot, run_loop):
    """Starts a loop."""

    def begin(executor=None, *, first=None, on_fenced=None, observer=None, **changes):
        epoch = claim_epoch(store, "m")
        state = fresh_state(epoch)
        if "options" in changes:
            state = dataclasses.replace(state, options=changes["options"])
        actions = make_actions(store, epoch, executor or FakeExecutor(), depot, **changes)
        return run_loop(actions, state, first=first, on_fenced=on_fenced, observer=observer)

    return begin


def _until(done, seconds=60.0):
    ends_at = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends_at, "not within the time"
        time.sleep(0.005)


def test_a_hanging_attempt_is_ended_when_another_life_takes_over(store, start):
    """Within seconds it halts, says who it was, and tells whoever wants to know, once."""
    executor, told = FakeExecutor(hangs=True), []
    loop = start(executor, on_fenced=told.append)
    assert executor.running.wait(60)
    began = time.monotonic()
    claim_epoch(store, "m")
    with pytest.raises(FencedError) as raised:
        loop.wait_processed(3)
    assert time.monotonic() - began < FENCED_SECONDS_MAX
    assert "fenced by process" in raised.value.message
    assert executor.cancelled.is_set()
    _until(lambda: told)
    assert [str(each) for each in told] == [str(loop.fenced)]
    assert loop.fenced.context["fenced_by"]
    assert store.list("m/mb/commits") == []
    assert len(executor.runs) == 1
    with pytest.raises(FencedError):
        loop.resume()


@pytest.mark.parametrize("resting", ["idle", "paused", "failed", "delivering", "full"])
def test_a_loop_that_waits_is_ended_when_another_life_takes_over(store, depot, start, resting):
    """Also one that waits for a person, or for a disk."""
    executor, told, changes = FakeExecutor(), threading.Event(), {}
    if resting == "delivering":
        executor.appends = ROWS
        changes["deliver"] = _refuse
    if resting == "failed":
        executor.run = _break
        changes["options"] = options(topology__microbatch__retry__max__attempts=1)
    if resting == "full":
        store.refuse_before.add("commits")
    loop = start(executor, on_fenced=lambda _: told.set(), **changes)
    if resting == "paused":
        loop.pause()
    wanted = {
        "idle": lambda state: state.last.id == 1 and state.step == ev.Step.IDLE,
        "paused": lambda state: state.condition == ev.Condition.PAUSED,
        "failed": lambda state: state.condition == ev.Condition.FAILED,
        "delivering": lambda state: state.step == ev.Step.PUBLISH and state.failures > 3,
        "full": lambda state: state.failures > 3,
    }[resting]
    _until(lambda: wanted(loop.status.state))
    began = time.monotonic()
    claim_epoch(store, "m")
    assert told.wait(FENCED_SECONDS_MAX)
    assert time.monotonic() - began < FENCED_SECONDS_MAX
    assert loop.status.state.condition == ev.Condition.FENCED


def test_a_delivery_that_fails_shows_in_the_status_and_holds_back_the_next(store, depot, start):
    """Readers stay where they are until it works; a pause meanwhile holds after it."""
    works = threading.Event()
    delivered = []

    def deliver(commit):
        if not works.is_set():
            raise StorageError("the disk refused: no space left on device")
        delivered.append(commit.id)
        return {}

    loop = start(FakeExecutor(appends=ROWS), deliver=deliver)
    _until(lambda: loop.status.state.failures > 2)
    status = loop.status.as_dict(loop.published, {"d": [3]})
    assert status["error"]["code"] == "E-STORAGE"
    assert (status["state"], status["step"]) == ("running", "publish")
    assert loop.published.id == 0
    with pytest.raises(WaitTimeoutError):
        loop.pause(timeout_seconds=0.3)
    works.set()
    loop.pause()
    assert (delivered, loop.published.id) == ([1], 1)
    depot.end = 5
    loop.notify_append()
    assert loop.status.as_dict(loop.published, {"d": [5]})["error"] is None
    loop.resume()
    loop.wait_processed(5)
    assert delivered == [1, 2]


def test_a_new_life_delivers_what_is_owed_before_it_goes_on(start):
    """The commits that it was told of, in order, then its own."""
    delivered = []
    owed = tuple(
        msgspec.structs.replace(GENESIS, id=number, appends=ROWS if number != 2 else [])
        for number in (1, 2, 3)
    )

    def deliver(commit):
        delivered.append(commit.id)
        return {}

    loop = start(first=ev.Begin(None, owed), deliver=deliver)
    loop.wait_processed(3)
    assert delivered == [1, 3]


def test_a_checkpoint_of_nothing_is_the_last_commit(start):
    """It is answered without a microbatch; each request gets its answer."""
    loop = start()
    loop.wait_processed(3)
    assert [loop.checkpoint(), loop.checkpoint()] == [1, 1]
    loop.pause()
    with pytest.raises(UsageError):
        loop.checkpoint(timeout_seconds=60)


def test_a_checkpoint_of_a_failed_topology_is_refused(start):
    """It says why the topology failed."""
    executor = FakeExecutor()
    executor.run = _break
    loop = start(executor, options=options(topology__microbatch__retry__max__attempts=1))
    _until(lambda: loop.status.state.condition == ev.Condition.FAILED)
    with pytest.raises(TopologyFailedError) as raised:
        loop.checkpoint(timeout_seconds=60)
    assert "it broke" in raised.value.message


def test_steps_are_told_with_the_microbatch_that_they_belong_to(depot, start):
    """In order, from the first step of the first microbatch on."""
    told = []
    loop = start(observer=lambda step, microbatch: told.append((int(step), microbatch)))
    loop.wait_processed(3)
    depot.end = 4
    loop.notify_append()
    loop.wait_processed(4)
    loop.pause()
    assert told == [(step, microbatch) for microbatch in (1, 2) for step in (1, 2, 3, 4, 5)]


def _refuse(_commit):
    raise StorageError("the disk refused")


def _break(*_arguments):
    raise AttemptError(ActorFailure("E-TEST", "it broke"))


def test_a_defect_in_the_thread_is_a_failed_topology(start):
    """Whoever waits is told, and so is whoever resumes: nothing goes on silently."""

    def broken(_step, _microbatch):
        raise ZeroDivisionError("a defect")

    loop = start(observer=broken)
    with pytest.raises(TopologyFailedError) as raised:
        loop.wait_processed(3, timeout_seconds=60)
    assert "a defect" in raised.value.message
    loop._thread.join(60)
    with pytest.raises(TopologyFailedError):
        loop.resume()
    with pytest.raises(TopologyFailedError):
        loop.rollback(0)


def test_an_error_that_nobody_expected_ends_the_attempt_only(start):
    """It is shown and counted as any failure of an attempt."""
    executor = FakeExecutor()
    works, run = threading.Event(), executor.run

    def odd(*arguments):
        if not works.is_set():
            raise ZeroDivisionError("odd")
        return run(*arguments)

    executor.run = odd
    loop = start(executor)
    _until(lambda: loop.status.state.failures > 1)
    assert loop.status.state.failure.code == "E-INTERNAL"
    works.set()
    loop.wait_processed(3)
