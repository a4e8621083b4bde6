"""Runtimes on Spark while things are killed: between the seven steps of a snapshot, and anywhere.

The process with SIGKILL, the standing tasks that copies run in, the task that computes a snapshot
on behalf of the selected instance. A snapshot is never lost, never doubled, and never of other
events than those of its window.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from harness import report, seed, volume
from runtime_scenario import HELD, INSTANCES, WINDOW, Watched
from spark_processes import Child, is_alive, wait_until

from atoll.cluster.local import LocalCluster
from atoll.runtime.snapshots import worker
from atoll.runtime.snapshots.counting import STEPS
from atoll.spark.standing.tasks import standing_tasks

pytestmark = pytest.mark.slow
CAP_SECONDS = 120.0
PROCESS_STEPS = (STEPS[5], STEPS[3], STEPS[4], *STEPS[:3], STEPS[6])
"""Those of the worker first: the small version has two of them."""


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


def offered(watched, number):
    """Wait for a snapshot, and hold that it is whole: on all instances, once, of its window."""
    wait_until(
        lambda: (
            watched.calculator()["last"]["number"] >= number
            and all(state[0] >= number for state in watched.states())
        ),
        CAP_SECONDS,
        f"snapshot {number}",
    )
    least = WINDOW * (number - 1)
    assert (
        watched.states() == [(number, WINDOW, float(least), float(least + WINDOW - 1))] * INSTANCES
    )
    shown = watched.calculator()
    assert (shown["crossings"], shown["superseded"]) == (number, 0)
    counts = [number * WINDOW, number, number, number, number * INSTANCES]
    assert [shown["steps"][step] for step in STEPS[2:]] == counts
    counted = watched.running.counters()
    assert [counted[copy]["meter"]["snapshots"] for copy in (1, 2)] == [number] * 2
    assert sum(counted[copy]["meter"]["json"] for copy in (1, 2)) == number * WINDOW


@pytest.mark.parametrize("step", PROCESS_STEPS[: volume(2, len(STEPS))])
def test_a_process_killed_after_a_step_leaves_the_rest_to_the_next(tmp_path, step):
    """Its Java and its tasks live on for a while, as they do; the next process finishes it."""
    child = Child("runtime_scenario.py", tmp_path / "root", step)
    try:
        assert child.until("reached") == ["reached", step]
        child.kill()
        with LocalCluster(tmp_path / "root", engine="inline") as cluster:
            watched = Watched(cluster)
            watched.start()
            watched.send(range(watched.sent(), WINDOW))
            offered(watched, 1)
            watched.send(range(WINDOW, 2 * WINDOW))
            offered(watched, 2)
            watched.runtimes.close()
    finally:
        child.clean()


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One runtime on Spark for the tests that kill tasks; how many windows it has had."""
    made = _Bench(tmp_path_factory.mktemp("runtimes"))
    yield made
    made.watched.runtimes.close()
    made.cluster.close()


class _Bench:
    def __init__(self, folder):
        self.folder = folder
        self.cluster = LocalCluster(folder / "root")
        self.at = None
        self.hit = lambda: None
        self.windows = 0
        self.watched = Watched(self.cluster, self.reached)
        self.watched.start()

    def reached(self, step):
        """Kill what is to be killed after this step, once."""
        if step == self.at:
            self.at = None
            self.hit()

    def kill_tasks(self, count):
        """Kill standing tasks, and return when they are dead."""
        tasks = standing_tasks(self.cluster._engine.session, seated=False)
        wait_until(lambda: len(tasks.processes()) >= count, CAP_SECONDS, f"{count} tasks")
        pids = list(tasks.processes().values())[:count]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)), CAP_SECONDS, f"the end of {pids}")

    def window(self, first=WINDOW):
        """One more window, the first so many events of it apart; its snapshot is whole."""
        start = self.windows * WINDOW
        self.watched.send(range(start, start + first))
        self.watched.send(range(start + first, start + WINDOW))
        self.windows += 1
        offered(self.watched, self.windows)


def test_standing_tasks_killed_between_the_steps_change_no_snapshot(bench):
    """One of them and both, after each step of three windows and more."""
    began = time.monotonic()
    bench.window()
    kills = 0
    for _ in range(volume(1, 20)):
        for step in STEPS[1:]:
            count = 1 + kills % 2
            if step in HELD:
                bench.at, bench.hit = step, lambda count=count: bench.kill_tasks(count)
                bench.window()
                assert bench.at is None, f"{step} was not reached"
            else:
                bench.kill_tasks(count)
                bench.window(first=WINDOW - 1 if step == STEPS[2] else WINDOW)
            kills += 1
    report("standing tasks killed between the steps of a snapshot", kills, 0, began)


def test_when_the_task_that_computes_for_an_instance_is_killed_another_one_computes(
    bench, monkeypatch
):
    """The same state of the same events, offered once."""
    began = time.monotonic()
    kills = volume(1, 20)
    for number in range(kills):
        folder = bench.folder / f"computing{number}"
        folder.mkdir()
        monkeypatch.setattr(worker, "_part", _stalling(str(folder), worker.part_of))
        bench.watched.send(range(bench.windows * WINDOW, (bench.windows + 1) * WINDOW))
        wait_until((folder / "pid").exists, CAP_SECONDS, "a task that computes")
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        (folder / "go").touch()
        bench.windows += 1
        offered(bench.watched, bench.windows)
    report("computing tasks killed", kills, 0, began)


def _stalling(folder, part_of):
    """What a task does: says who it is, and waits until it may go on."""

    def stalled(part):
        import os
        import time
        from pathlib import Path

        if not (Path(folder) / "go").exists():
            name = Path(folder) / f"{os.getpid()}.part"
            name.write_text(str(os.getpid()))
            name.rename(Path(folder) / "pid")
        while not (Path(folder) / "go").exists():
            time.sleep(0.01)
        return part_of(part)

    return stalled


def test_kills_anywhere_lose_no_event_and_mix_no_window(tmp_path):
    """Lives that end at any moment, each with the Java of the one before still there."""
    began, chance = time.monotonic(), random.Random(seed())
    lives, accepted, children = volume(2, 30), 0, []
    try:
        for _ in range(lives):
            child = Child("runtime_scenario.py", tmp_path / "root", "send")
            children.append(child)
            child.until("accepted")
            time.sleep(chance.random() * 2)
            child.kill()
            accepted = max(int(words[1]) for words in child.lines if words[0] == "accepted")
        with LocalCluster(tmp_path / "root", engine="inline") as cluster:
            watched = Watched(cluster)
            watched.start()
            sent = watched.sent()
            assert sent >= accepted > 0
            counted = watched.running.counters()
            assert sum(counted[copy]["meter"]["json"] for copy in (1, 2)) == sent
            shown = watched.calculator()
            assert (shown["steps"]["counter-tracking"], shown["crossings"]) == (
                sent,
                sent // WINDOW,
            )
            last = shown["crossings"]
            wait_until(
                lambda: all(state[0] == last for state in watched.states()), CAP_SECONDS, "the last"
            )
            assert {state[1] for state in watched.states()} == {WINDOW}
            assert len(set(watched.states())) == 1
            done = watched.calculator()
            assert done["steps"]["snapshot-offer"] + done["superseded"] == done["crossings"]
            watched.runtimes.close()
    finally:
        for child in children:
            child.clean()
    report("runtimes killed anywhere on Spark", lives, 0, began)
