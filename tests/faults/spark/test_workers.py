"""Python workers of Spark killed, hung or stopped during step 2: the microbatch commits.

The function of a topology stands still once, at a known place, and tells the process id of the
worker that it runs in. So every fault hits a worker that is in the middle of a microbatch.
"""

from __future__ import annotations

import math
import os
import signal
import time

import pytest
import worker_scenario as scenario
from harness import report, volume
from spark_processes import is_alive, wait_until, worker_pids

from atoll import path
from atoll.cluster.local import LocalCluster
from atoll.microbatch.history import read_commit
from atoll.storage.local import LocalStore

pytestmark = pytest.mark.slow
CAP_SECONDS = 180.0
TIMEOUT_SECONDS_LEAST = 3
"""Ending an attempt ends its warm workers, so the time must do for cold ones on a busy machine."""
GONE_SECONDS = 60.0
"""Spark kills a cancelled task's worker half a second later; the rest is for a busy machine."""


class Bench:
    """One running module, its marker files, and how many rounds of records it has got."""

    def __init__(self, folder, *, limited):
        self.folder = folder / "marks"
        self.folder.mkdir()
        self.root = folder / "root"
        self.cluster = LocalCluster(self.root)
        self.app = self.cluster.deploy(scenario.build(self.folder))
        self.rounds = 0
        began = time.monotonic()
        self.round()
        cold = time.monotonic() - began
        self.timeout_seconds = max(TIMEOUT_SECONDS_LEAST, math.ceil(3 * cold))
        if limited:
            limit = {"topology__microbatch__phase__timeout__seconds": self.timeout_seconds}
            self.app = self.cluster.deploy(scenario.build(self.folder, **limit))

    @property
    def java(self):
        """The process that Spark runs in."""
        from pyspark import SparkContext

        return SparkContext._gateway.proc.pid

    def append(self):
        """One more round of records."""
        self.app.depot("events").append(scenario.records(self.rounds))
        self.rounds += 1

    def wait(self):
        """Until all records count; the last commit."""
        self.app.topology("mb").wait_processed(
            self.rounds * scenario.RECORDS, timeout_seconds=CAP_SECONDS
        )
        committed = self.app.topology("mb").status()["committed"]
        return read_commit(LocalStore(self.root), "workers", "mb", committed)

    def round(self):
        """Append and wait."""
        self.append()
        return self.wait()

    def catch(self, place):
        """Append, and wait until a worker stands still at the place; its process id."""
        (self.folder / "where.part").write_text(place)
        (self.folder / "where.part").rename(self.folder / "where")
        self.append()
        caught = self.folder / "caught"
        wait_until(caught.exists, CAP_SECONDS, f"a worker at {place}")
        pid = int(caught.read_text())
        caught.unlink()
        assert pid in worker_pids(self.java), "no worker of our own Spark"
        assert is_alive(pid)
        return pid

    def check(self):
        """Both states are what a plain fold gives."""
        expected = scenario.expected(self.rounds)
        for name in ("counts", "sums"):
            assert dict(self.app.pstate(name).select(path.all())) == expected, name


@pytest.fixture
def bench(tmp_path):
    """Makes a bench, and closes it."""
    made = []

    def make(*, limited):
        made.append(Bench(tmp_path, limited=limited))
        return made[-1]

    yield make
    for each in made:
        (each.folder / "go").touch()
        each.cluster.close()


def test_a_killed_worker(bench):
    """SIGKILL while it reads, or while it holds the write transactions: retried, and right."""
    began = time.monotonic()
    running = bench(limited=False)
    kills = volume(2, 30)
    for number in range(kills):
        pid = running.catch(scenario.PLACES[number % 2])
        before = running.app.topology("mb").status()["committed"]
        os.kill(pid, signal.SIGKILL)
        commit = running.wait()
        assert commit.id == before + 1
        assert not is_alive(pid)
        running.check()
    report("worker kills on Spark", kills, 0, began)


def hung(running, number, stop=None):
    """One hung task, ended by the phase timeout; the seconds from then to the commit."""
    pid = running.catch(scenario.PLACES[number % 2])
    if stop is not None:
        os.kill(pid, stop)
    caught_at = time.monotonic()
    commit = running.wait()
    taken = time.monotonic() - caught_at
    assert commit.version > 1, "the attempt was not ended"
    wait_until(lambda: not is_alive(pid), GONE_SECONDS, "the end of the worker that hung")
    running.check()
    return taken


def test_a_hung_task(bench):
    """The phase timeout ends the Spark job and its workers; the next attempt commits."""
    began = time.monotonic()
    running = bench(limited=True)
    hangs = volume(1, 10)
    taken = [hung(running, number) for number in range(hangs)]
    assert min(taken) > running.timeout_seconds / 2, "it was not the timeout that ended it"
    report(
        "hung tasks on Spark",
        hangs,
        0,
        began,
        slowest_seconds=round(max(taken), 1),
        timeout_seconds=running.timeout_seconds,
    )


def test_a_worker_stopped_in_its_transactions(bench):
    """It cannot end by itself, and holds the writer locks: it is killed, and nobody waits long."""
    began = time.monotonic()
    running = bench(limited=True)
    stops = volume(1, 10)
    taken = [hung(running, 1, signal.SIGSTOP) for _ in range(stops)]
    report(
        "workers stopped on Spark",
        stops,
        0,
        began,
        slowest_seconds=round(max(taken), 1),
        timeout_seconds=running.timeout_seconds,
    )
