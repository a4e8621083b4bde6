"""A writer that stands still holds nobody up for long, and can do no harm when it goes on.

A process opens sessions, writes, and is stopped by SIGSTOP in the middle. The next attempt waits
as long as its patience lasts, leaves the stores to the stopped process and builds new ones.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atoll.pstate.store import writer_lock as writing
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.store.writer_lock import Patience, WriterLock

CONFTEST = Path(__file__).parent / "conftest.py"
VNODES = tuple(range(6))
PATIENCE = 2.0
VICTIM = f"""
import runpy, sys
World = runpy.run_path({str(CONFTEST)!r})["World"]
world = World(sys.argv[1], vnodes={VNODES})
attempt = world.attempt(id=2)
sessions = [world.open(attempt, vnode) for vnode in {VNODES}]
for session in sessions:
    session.put(b"a", b"stopped")
print("ready", flush=True)
sys.stdin.readline()
for session in sessions:
    session.commit()
print("committed", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def patient(new_world, tmp_path):
    """A world with one commit, whose stores have little patience."""
    world = new_world(tmp_path, vnodes=VNODES)
    world.stores = VnodeStores(
        tmp_path / "local", environments=world.environments, patience_seconds=PATIENCE
    )
    world.commit(world.run({vnode: {b"a": b"1", b"b": b"2"} for vnode in VNODES}))
    world.save()
    return world


@pytest.fixture
def stopped(patient, tmp_path):
    """A process that is stopped while it writes to every vnode."""
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        yield process
        process.kill()


def test_the_next_attempt_goes_on(patient, stopped):
    """It waits, leaves the stores, and then the state is that of the last commit."""
    began = time.monotonic()
    attempt = patient.attempt(version=2)
    sessions = [patient.open(attempt, vnode) for vnode in VNODES]
    assert time.monotonic() - began >= PATIENCE
    for session in sessions:
        assert session.opening.kind == "absent"
        assert session.get(b"a") == b"1"
        session.abort()
    run = patient.run({vnode: {b"a": b"2"} for vnode in VNODES}, attempt=attempt)

    stopped.send_signal(signal.SIGCONT)
    stopped.stdin.write("\n")
    stopped.stdin.flush()
    assert stopped.stdout.readline() == "committed\n"
    patient.check(patient.commit(run))


def test_a_writer_that_ends_is_waited_for(patient, stopped):
    """Killed while it is waited for: its lock is free at once, and the store is kept."""
    patient.stores.patience = Patience(60.0)
    stopped.kill()
    with patient.open(patient.attempt(version=2)) as session:
        assert session.opening.kind == "current"
        assert session.get(b"a") == b"1"


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        """What it shows."""
        return self.now

    def sleep(self, seconds):
        """Let the time pass."""
        self.now += seconds


def test_one_wait_for_all_stores_together(tmp_path, monkeypatch):
    """The first uses the patience up; it is there again when none was asked for as long."""
    clock = Clock()
    monkeypatch.setattr(writing, "time", clock)
    paths = [str(tmp_path / "pstate" / str(vnode)) for vnode in VNODES]
    left = []
    held = [WriterLock(path, Patience(), left.append) for path in paths]
    patience = Patience(PATIENCE)
    began = clock.now
    taken = [WriterLock(path, patience, left.append) for path in paths]
    assert left == paths
    assert PATIENCE <= clock.now - began < PATIENCE + 0.5
    clock.sleep(2 * PATIENCE)
    began = clock.now
    taken.append(WriterLock(paths[0], patience, left.append))
    assert PATIENCE <= clock.now - began < PATIENCE + 0.5
    for each in (*held, *taken):
        each.release()


def test_the_lock_is_one_at_a_time(tmp_path):
    """While it is held nobody gets it; a lock file taken away is noticed."""
    path = str(tmp_path / "pstate" / "0")
    left = []

    def leave(folder):
        left.append(folder)

    first = WriterLock(path, Patience(), leave)
    second = WriterLock(path, Patience(0.05), leave)
    assert left == [path]
    third = WriterLock(path, Patience(0.05), leave)
    assert left == [path, path]
    for each in (first, second, third):
        each.release()
        each.release()
    WriterLock(path, Patience(0.0), leave).release()
    assert left == [path, path]
