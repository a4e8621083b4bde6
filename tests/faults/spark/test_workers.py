"""Python workers of Spark killed, hung or stopped during step 2: the microbatch commits.

The function of a topology stands still once, at a known place, and tells the process id of the
worker that it runs in. So every fault hits a worker that is in the middle of a microbatch.
"""

from __future__ import annotations

import os
import signal
import time

import pytest
import worker_scenario as scenario
from harness import report, volume
from spark_processes import is_alive, wait_until
from worker_bench import GONE_SECONDS

pytestmark = pytest.mark.slow


def test_a_killed_worker(bench):
    """SIGKILL while it reads, or while it holds the write transactions: retried, and right."""
    began = time.monotonic()
    running = bench(limited=False)
    kills = volume(2, 30)
    for number in range(kills):
        standing = running.stand()
        pid = running.catch(scenario.PLACES[number % 2])
        assert pid in standing, "it hit no standing task"
        before = running.app.topology("mb").status()["committed"]
        os.kill(pid, signal.SIGKILL)
        commit = running.wait()
        assert commit.id == before + 1
        assert not is_alive(pid)
        running.check()
    running.stands_again()
    report("worker kills on Spark", kills, 0, began)


def hung(running, number, stop=None):
    """One hung task, ended by the phase timeout; the seconds from then to the commit."""
    standing = running.stand()
    pid = running.catch(scenario.PLACES[number % 2])
    assert pid in standing, "it hit no standing task"
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
