"""Who asks a topology to rest or to go on returns when it was told, however short that lasts."""

from __future__ import annotations

import dataclasses
import threading

import pytest
from memory_store import MemoryStore
from protocol_fakes import FakeExecutor, fresh_state, make_actions, options

from atoll.errors import StateError, StorageError
from atoll.microbatch import events as ev
from atoll.microbatch.commits.objects import GENESIS, AppendedRows
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.pstate.store.history import FileRef

ROWS = [AppendedRows("out", FileRef("rows", 1, 2, 3))]
SECONDS = 60.0


@pytest.fixture
def start(store, depot, run_loop):
    """Starts a loop."""

    def begin(executor, *, deliver=None, **values):
        epoch = claim_epoch(store, "m")
        state = fresh_state(epoch, options=options(**values))
        parts = {} if deliver is None else {"deliver": deliver}
        return run_loop(make_actions(store, epoch, executor, depot, **parts), state)

    return begin


class Unseen:
    """Takes up what is asked while nobody can look, from one event until another was decided."""

    def __init__(self, loop, first, last):
        self.first, self.last = first, last
        self.changed, self.decide, self.held = loop._changed, loop._decide, False
        loop._decide = self

    def __call__(self, event):
        """Decide; a lock that everybody needs to look at the state is held between the two."""
        if isinstance(event, self.first) and not self.held:
            self.held = self.changed.acquire()
        command = self.decide(event)
        if isinstance(event, self.last) and self.held:
            self.changed.release()
            self.held = False
        return command


def _break(*_arguments):
    raise AttemptError(ActorFailure("E-TEST", "it broke"))


def _refuse(_commit):
    raise StorageError("the disk refused")


def _until(loop, condition):
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop.status.state.condition == condition, SECONDS)


def test_resume_of_a_topology_that_fails_again_before_anybody_looks(start, monkeypatch):
    """It was told to go on, and did: nobody waits for a moment that is over."""
    executor = FakeExecutor()
    executor.run = _break
    loop = start(executor, topology__microbatch__retry__max__attempts=1)
    _until(loop, ev.Condition.FAILED)
    version = loop.status.state.version
    unseen = Unseen(loop, ev.Resume, ev.AttemptFailed)
    waits = loop._wait
    monkeypatch.setattr(loop, "_wait", lambda done, _, what: waits(done, 10.0, what))
    loop.resume()
    assert loop.status.state.condition == ev.Condition.FAILED
    assert loop.status.state.version == version + 1
    assert not unseen.held


def _at_once(loop, *events):
    """What is asked next is followed by these, before the loop takes any of it."""
    request = loop._request

    def all_of_them(event):
        loop._request = request
        with loop._changed:
            for each in (event, *events):
                request(each)

    loop._request = all_of_them


def test_pause_of_a_topology_that_is_resumed_before_anybody_looks(start):
    """It rested, and the pause returns though the topology runs again."""
    loop = start(FakeExecutor())
    loop.wait_processed(3)
    unseen = Unseen(loop, ev.Pause, ev.Resume)
    _at_once(loop, ev.Resume(2))
    loop.pause(timeout_seconds=10.0)
    assert loop.status.state.condition == ev.Condition.RUNNING
    assert not unseen.held


def test_a_pause_that_somebody_took_back_is_told(start):
    """What it waited for still runs, and more will follow."""
    loop = start(FakeExecutor(appends=ROWS), deliver=_refuse)
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop.status.state.failures, SECONDS)
    _at_once(loop, ev.Resume(2))
    with pytest.raises(StateError) as raised:
        loop.pause(timeout_seconds=10.0)
    assert "resumed before its pause began" in raised.value.message


def test_a_pause_is_not_the_one_before_a_resumption(start):
    """Asked behind one that nobody has taken up, it waits for the microbatch of that."""
    executor, works = FakeExecutor(), threading.Event()
    run = executor.run
    executor.run = lambda *given: run(*given) if works.is_set() else _break()
    loop = start(executor)
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop.status.state.failures, SECONDS)
    loop.pause()
    works.set()
    with loop._changed:  # the loop takes nothing before the pause waits
        loop._request(ev.Resume())
        loop.pause()
    assert loop.published.id == 1
    assert loop.status.state.condition == ev.Condition.PAUSED


def test_how_far_requests_were_followed():
    """Pure: a pause is taken at once and rests when the commit is through; a later one rules."""
    epoch = claim_epoch(MemoryStore(), "m")
    state, _ = decide(fresh_state(epoch), ev.Pause(None, 1))
    assert state.said == ev.Said(1, 1)
    state, _ = decide(state, ev.Resume(2))
    assert state.said == ev.Said(2, 1)
    publishing = dataclasses.replace(state, step=ev.Step.PUBLISH, owed=(GENESIS,))
    publishing, _ = decide(publishing, ev.Pause(None, 3))
    assert publishing.said == ev.Said(3, 1)
    resting, _ = decide(publishing, ev.Delivered())
    assert resting.said == ev.Said(3, 3)
    again, _ = decide(publishing, ev.Resume(4))
    assert (again.said, again.condition) == (ev.Said(4, 1), ev.Condition.RUNNING)
    assert decide(resting, ev.Pause())[0].said == resting.said
