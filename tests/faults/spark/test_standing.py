"""Standing tasks that die, stop or are joined by others: the microbatch commits, nobody is left.

Those that are hit in the middle of their work are in ``test_workers.py``. Here they are hit while
they are idle, end by the user's own doing, meet others at the driver's socket, or lose the driver.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import time

import msgspec
import pytest
import worker_scenario as scenario
from harness import report, volume
from spark_processes import Child, children, is_alive, session_pids, wait_until, worker_pids
from test_jvm_kills import java_of
from worker_bench import CAP_SECONDS, GONE_SECONDS, Bench

from atoll.spark.standing.messages import Hello
from atoll.spark.standing.slots import HERE
from atoll.spark.standing.wire import ImpostorError, Wire, prove

pytestmark = pytest.mark.slow
TIMEOUT_SECONDS = 3
"""An attempt that takes longer on a busy machine is made again, as one that meets a fault."""

ORPHANS_SECONDS_MAX = 20.0
"""Java ends within a second or two of its driver; the rest is for a busy machine."""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One bench for all tests of this file."""
    folder = tmp_path_factory.mktemp("standing")
    made = Bench(folder, limited=True, timeout_seconds=TIMEOUT_SECONDS)
    yield made
    (made.folder / "go").touch()
    made.cluster.close()


def dead(*pids):
    """Return when these processes are gone."""
    wait_until(lambda: not any(map(is_alive, pids)), GONE_SECONDS, f"the end of {pids}")


def test_killed_while_idle(running):
    """Whoever comes next does not even try it, or tries again; others take its place."""
    began = time.monotonic()
    kills = volume(2, 20)
    for number in range(kills):
        pids = running.stand()[: 1 + number % 2]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        dead(*pids)
        running.round()
        running.check()
        running.stands_again(*pids)
    report("standing tasks killed while idle", kills, 0, began)


def test_stopped_while_idle(running):
    """It takes the request and never answers: the phase timeout ends it, and another one comes."""
    began = time.monotonic()
    stops = volume(1, 10)
    for number in range(stops):
        pid = running.stand()[number % 2]
        os.kill(pid, signal.SIGSTOP)
        commit = running.round()
        assert commit.version > 1, "the attempt was not ended"
        dead(pid)
        running.check()
        running.stands_again(pid)
    report("standing tasks stopped while idle", stops, 0, began)


def test_a_function_that_ends_its_process(running):
    """``os._exit`` in a user's function costs an attempt, and the next one is sound."""
    began = time.monotonic()
    for place in scenario.PLACES:
        pids = running.stand()
        (running.folder / "exit").touch()
        (running.folder / "where").write_text(place)
        commit = running.round()
        (running.folder / "exit").unlink()
        assert commit.version > 1, "nobody ended"
        gone = [pid for pid in pids if not is_alive(pid)]
        assert len(gone) == 1, "it was no standing task"
        running.check()
        running.stands_again(*gone)
    report("standing tasks that end themselves", len(scenario.PLACES), 0, began)


# Who else comes to the driver's socket ------------------------------------------------------------


@pytest.fixture
def come(running):
    """Makes connections to where the standing tasks of the bench come."""
    with contextlib.ExitStack() as ends:

        def connect():
            made = socket.socket(socket.AF_UNIX)
            made.connect(running.standing._address)
            wire = Wire(made)
            ends.callback(wire.close)
            return wire

        yield connect


def hang_up(wire):
    """The driver says nothing more."""
    with pytest.raises((EOFError, OSError)):
        wire.receive(time.monotonic() + CAP_SECONDS)


def test_impostors(running, come):
    """Who does not know the secret gets nothing, does nothing, and keeps nobody from the work."""
    pids = running.stand()
    silent = [come() for _ in range(5)]
    for said in (b"GET / HTTP/1.1\r\n\r\n", pickle.dumps(os.getcwd), b"\xff" * 5000):
        wire = come()
        wire._socket.sendall(said * 20)
        wire.receive(time.monotonic() + CAP_SECONDS)
        hang_up(wire)
    with pytest.raises((ImpostorError, EOFError, OSError)):
        prove(come(), b"a guess", about(running))
    running.round()
    running.check()
    assert running.app.topology("mb").status()["jobs"] == ["standing"]
    assert running.stand() == pids
    for each in silent:
        each.close()


def about(running, *, generation=0, trial=0):
    """What a task of post 0 says of itself, so many generations before the one that stands."""
    post = running.standing._posts[HERE, 0]
    told = Hello(HERE, 0, post._generation - generation, post._trial + trial, os.getpid())
    return msgspec.msgpack.encode(told)


def test_a_task_of_an_earlier_generation(running, come):
    """It knows the secret, and is let go all the same: so is a trial that has come already."""
    pids = running.stand()
    for stale in (about(running, generation=1, trial=5), about(running)):
        wire = come()
        prove(wire, running.standing._secret, stale)
        hang_up(wire)
    assert running.stand() == pids
    running.stands_again()
    assert running.stand() == pids


def test_a_task_that_spark_starts_twice(running, come):
    """The later one counts; the one before ends. When that dies at work, others follow."""
    first, _ = running.stand()
    wire = come()
    prove(wire, running.standing._secret, about(running, trial=1))
    wait_until(
        lambda: running.standing.processes()["post 0"] == os.getpid(), CAP_SECONDS, "its turn"
    )
    running.append()
    assert wire.receive(time.monotonic() + CAP_SECONDS), "it is asked to work"
    wire.sever()
    assert running.wait().version > 1
    running.check()
    running.stands_again(os.getpid())
    assert is_alive(first) or first not in running.stand()


# The driver is gone -------------------------------------------------------------------------------


def test_the_driver_is_killed(tmp_path):
    """No process of it is left within seconds: none that works, waits or is stopped."""
    began = time.monotonic()
    child = Child("spark_child.py", tmp_path / "root", "forever", ATOLL_LINGER_MS="3")
    try:
        child.until("begun")
        for _ in range(3):
            child.until("tidy")
        java = java_of(child)
        standing = worker_pids(java)
        assert len(standing) >= 2, standing
        os.kill(standing[0], signal.SIGSTOP)
        left = [java, *children(java), *standing]
        assert child.kill() == -signal.SIGKILL
        wait_until(
            lambda: not any(map(is_alive, left)), ORPHANS_SECONDS_MAX, "the end of the orphans"
        )
        assert not [pid for pid in session_pids(child.process.pid) if is_alive(pid)]
    finally:
        child.clean()
    report("drivers killed over standing tasks", 1, 0, began)
