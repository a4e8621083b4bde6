"""The JVM killed under a driver that lives on: Spark is started anew in place, nothing is lost.

The driver keeps its epoch and its topologies; the attempt that ran fails, and the next one runs on
the new session. At the end everything that was appended counts once, and the driver has no worker
of the dead JVM's left.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
import spark_checks as checks
from harness import replay, report, seed, volume
from spark_processes import STEPS, Child, children, is_alive, session_pids, wait_until, worker_pids

ROUNDS = volume(1, 10)
KILLS = volume(1, 4)
"""Of each round; a fifth death within five minutes is one too many."""

RECORDS = volume(100, 2_000)
SPREAD_SECONDS = {"process": 0.4}


def java_of(child):
    """The JVM of a driver."""
    found = [
        pid
        for pid in children(child.process.pid)
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    ]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_dead_jvm_is_followed_by_another(tmp_path, number):
    """In the first round in the middle of a Spark job, where most is lost; else in any step."""
    began = time.monotonic()
    draw = random.Random(seed() + number)
    root = tmp_path / "root"
    commits = checks.CommitBook(root)
    child = Child("spark_child.py", root, "more", RECORDS, ATOLL_LINGER_MS="3", ATOLL_STAND="1")
    try:
        child.until("begun")
        gone = []
        for _ in range(KILLS):
            step = draw.choice(STEPS) if number else "process"
            for _ in range(draw.randint(2, 3)):
                child.until(STEPS[STEPS.index(step) - 1])
            time.sleep(draw.uniform(0.0, SPREAD_SECONDS.get(step, 0.002)))
            java = java_of(child)
            gone += [java, *children(java), *worker_pids(java)]
            os.kill(java, signal.SIGKILL)
            commits.collect()
        assert child.until("ways")[1:] == ["mixed", "standing"], "no tasks stand on the new session"
        child.until("finished")
        wait_until(lambda: not any(map(is_alive, gone)), 10, "the end of the dead JVM's processes")
        assert child.ended() == 0, child.said()
        found = checks.check_all(root, commits)
        assert set(commits.epochs()) == {1}, "the driver lived on"
        assert not [pid for pid in session_pids(child.process.pid) if pid in gone]
    except BaseException as error:
        error.add_note(replay("spark/test_jvm_kills.py"))
        raise
    finally:
        child.clean()
    report("JVM kills on Spark", KILLS, 0, began, **found)
