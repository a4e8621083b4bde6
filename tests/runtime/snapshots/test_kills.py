"""Kills between the seven steps: a snapshot is never lost, never doubled and never mixed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kill_child import numbers
from metered import Watched, by_count, definition
from waiting import until

from atoll.cluster.local import LocalCluster
from atoll.runtime.engine.compile import TOPOLOGY
from atoll.runtime.service.registry import RuntimeChange
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.snapshots.counting import STEPS
from atoll.runtime.snapshots.worker import SnapshotWorker, calculated

SEND_BEFORE = {"runtime-creation": 0, "copy-registration": 0, "counter-tracking": 9}


class Dying(SnapshotWorker):
    """A worker whose process dies after one of the steps 4 to 6: it does nothing from then on."""

    def __init__(self, running, step):
        super().__init__(running, self._computed)
        self.step = step
        self.reached = []

    def _computed(self, actor, wanted, by):
        self.reached.append("instance-selection")
        if self.step == "instance-selection":
            raise SystemExit
        return calculated(self._running, actor, wanted, by)

    def _finish(self, actor, wanted, attempt):
        if self.step == "instance-selection":
            return
        self.reached.append("snapshot-calculation")
        if self.step == "snapshot-calculation":
            self._ended.set()
            return
        self._running.app.topology(TOPOLOGY).pause()
        super()._finish(actor, wanted, attempt)
        self.reached.append("snapshot-offer")


@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_after_a_step_leaves_the_rest_to_the_next(tmp_path, step, started):
    """One snapshot of ten events on all four instances, whichever step was the last one."""
    cluster = LocalCluster(tmp_path, engine="inline")
    workers = []

    def worker(running):
        made = SnapshotWorker(running) if step == STEPS[6] else Dying(running, step)
        workers.append(made)
        return made

    runtimes = Runtimes(cluster, worker)
    runtimes.open()
    given = definition(by_count(10), copies=2, instances=2)
    if step == "runtime-creation":
        change = RuntimeChange("created", "id", 1, "coral", "r", given, 2)
        runtime = runtimes.registry.change(lambda _: change)
    else:
        runtime = Watched(runtimes, runtimes.start(runtimes.create(given)))
        before = SEND_BEFORE.get(step, 10)
        if before:
            runtime.send(range(before))
        if step in STEPS[3:6]:
            until(lambda: step in workers[0].reached)
        if step == STEPS[6]:
            runtime.offered(1)
    cluster.kill()
    runtimes.close()
    after = started(given, tmp_path)
    if step == "runtime-creation":
        after.runtime = after.runtimes.start(after.runtime)
    if step in STEPS[3:6]:
        after.running.app.topology(TOPOLOGY).resume()
    after.send(range(SEND_BEFORE.get(step, 10), 10))
    shown = after.offered(1)
    assert shown["steps"] == dict(zip(STEPS, [1, 4, 10, 1, 1, 1, 4], strict=True))
    assert [number for number, _ in after.states()] == [1] * 4
    assert {state["count"] for _, state in after.states()} == {10}
    assert after.running.counters()[1]["meter"]["snapshots"] == 1
    after.send(range(100, 110))
    after.offered(2)
    assert {(state["min"], state["max"]) for _, state in after.states()} == {(100.0, 109.0)}


def test_kill_9_of_the_process_loses_no_event_and_mixes_no_window(tmp_path, started):
    """Three lives that end anywhere; then every window was of ten numbers in a row."""
    here = Path(__file__).parent
    root = tmp_path / "root"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    accepted = 0
    for life in range(3):
        child = subprocess.Popen(
            [sys.executable, str(here / "kill_child.py"), str(root)],
            stdout=subprocess.PIPE,
            env=path,
            text=True,
        )
        try:
            for _ in range(8 + 5 * life):
                accepted = int(child.stdout.readline())
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
    runtime = started(None, root)
    runtime.running.wait_all()
    sent = numbers(runtime.running)
    assert sent == list(range(len(sent)))
    assert len(sent) >= accepted > 0
    counted = runtime.running.counters()[1]["meter"]
    assert counted["json"] == len(sent)
    shown = runtime.calculator()
    assert shown["steps"]["counter-tracking"] == len(sent)
    assert shown["crossings"] == len(sent) // 10
    runtime.offered(shown["crossings"])
    ((_, state),) = runtime.states()
    end = shown["crossings"] * 10
    assert (state["count"], state["min"], state["max"]) == (10, end - 10.0, end - 1.0)
    done = runtime.calculator()
    assert done["steps"]["snapshot-offer"] + done["superseded"] == done["crossings"]
