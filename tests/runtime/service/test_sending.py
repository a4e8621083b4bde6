"""Events and shunts while the runtime is changed: each is taken once, or refused with a reason."""

from __future__ import annotations

import threading

import pytest

from atoll.errors import AtollError, ConflictError, NotFoundError
from atoll.runtime.service import sending


@pytest.fixture
def runtime(runtimes, definition):
    """A runtime that runs."""
    return runtimes.start(runtimes.create(definition))


def sent_by_many(runtimes, runtime, change):
    """What happens to events and shunts of two threads while a change is made."""
    ended = threading.Event()
    told, errors = [0, 0], []

    def work(kind, action):
        while not ended.is_set():
            try:
                action()
                told[kind] += 1
            except AtollError as error:
                errors.append(error)
                if isinstance(error, (NotFoundError, ConflictError)):
                    return

    def send():
        sending.send(runtimes, runtime, "low", [{"v": 15}])

    def shunt():
        sending.shunt(runtimes, runtime, "low", {"v": 15})

    threads = [threading.Thread(target=work, args=each) for each in ((0, send), (1, shunt))]
    for each in threads:
        each.start()
    try:
        change()
    finally:
        ended.set()
        for each in threads:
            each.join(60)
    return told, errors


def test_nobody_is_refused_while_copies_are_changed(runtimes, runtime):
    """They wait for the new copies, and nothing is lost or doubled."""

    def change():
        for copies in (3, 1, 4, 2) * 2:
            runtimes.scale(runtime, copies)

    (events, shunts), errors = sent_by_many(runtimes, runtime, change)
    assert errors == []
    running = runtimes.running(runtime)
    running.wait_all()
    counts = [each.get("low", {}) for each in running.counters().values()]
    assert sum(each.get("json", 0) for each in counts) == events
    assert sum(each.get("shunt", 0) for each in counts) == shunts


def test_whoever_sends_to_a_runtime_that_is_deleted_is_told_so(runtimes, runtime):
    """Not that something inside was closed."""
    _, errors = sent_by_many(runtimes, runtime, lambda: runtimes.delete(runtime))
    assert {type(each) for each in errors} <= {NotFoundError}
