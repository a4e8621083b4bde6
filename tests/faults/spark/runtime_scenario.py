"""A runtime with snapshots on Spark, and a worker that holds still between the seven steps.

As a script it is one life: ``runtime_scenario.py ROOT STEP`` runs until the step, says so, and
waits to be killed; ``runtime_scenario.py ROOT send`` sends numbers and says what was accepted, for
ever.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

from atoll.cluster.local import LocalCluster
from atoll.runtime.engine.compile import INTAKE
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.service.showing import actor_stats
from atoll.runtime.snapshots.counting import STEPS
from atoll.runtime.snapshots.worker import SnapshotWorker

WINDOW = 10
INSTANCES = 4
HELD = STEPS[3:6]
"""The steps that the worker beside the topology does."""

DEFINITION = {
    "name": "r",
    "actors": [
        {"name": "in", "type": "httpbroadcast"},
        {
            "name": "meter",
            "type": "stats",
            "params": {"field": "v"},
            "copies": 2,
            "log": {"incoming": True},
            "state": {
                "calc-local": False,
                "spark-batch": {"update": {"event-count": WINDOW}},
            },
        },
    ],
    "links": [{"from": "in", "to": "meter"}],
    "distribution": {"copies": 2},
}


class Holding(SnapshotWorker):
    """A worker that calls somebody after each of its steps, before it goes on.

    Args:
        running: The runtime.
        reached: Called with the step; nothing of the next one is done before it returns.
    """

    def __init__(self, running, reached):
        super().__init__(running)
        self._reached = reached

    def _told(self, step, actor, attempt):
        super()._told(step, actor, attempt)
        self._reached(step)


class Watched:
    """The runtime of a root, and what is to be seen of it."""

    def __init__(self, cluster, reached=None):
        worker = (lambda running: Holding(running, reached)) if reached else SnapshotWorker
        self.runtimes = Runtimes(cluster, worker)
        self.runtimes.open()
        self.runtime = next(iter(self.runtimes), None)

    def start(self):
        """Made and started, as far as it was not before; processed."""
        runtime = self.runtime or self.runtimes.create(DEFINITION)
        self.runtime = runtime if runtime.status == "running" else self.runtimes.start(runtime)
        self.running.wait_all()

    @property
    def running(self):
        """As it runs now."""
        return self.runtimes.running(self.runtime)

    def send(self, numbers):
        """Events, accepted and processed when this returns."""
        numbers = list(numbers)
        if numbers:
            self.running.send("in", [{"v": number} for number in numbers])
        self.running.wait_all(120)

    def calculator(self):
        """What the batch state calculator shows of the meter."""
        return self.runtimes.snapshots(self.runtime)["actors"]["meter"]

    def states(self):
        """Snapshot, count, least and most of every instance."""
        shown = actor_stats(self.running, "meter")["instances"]
        return [
            (each["snapshot"], *(each["state"][name] for name in ("count", "min", "max")))
            for each in shown
        ]

    def sent(self):
        """How many events the intake holds, ever."""
        depot = self.running.app.depot(INTAKE)
        table = depot.read(0, depot.start_offsets()[0], depot.end_offsets()[0])
        return table.column("kind").to_pylist().count("trigger")


def live(root, step):
    """One life that reaches a step and holds still there."""
    stood = threading.Event()

    def reached(now):
        if now == step:
            told(step)
            stood.wait()

    def told(now):
        sys.stdout.write(f"reached {now}\n")
        sys.stdout.flush()

    cluster = LocalCluster(root)
    watched = Watched(cluster, reached)
    if step == STEPS[0]:
        watched.runtimes.create(DEFINITION)
    else:
        watched.start()
        counted = {STEPS[1]: 0, STEPS[2]: WINDOW - 1}.get(step, WINDOW)
        watched.send(range(watched.sent(), counted))
    if step == STEPS[6]:
        while any(state[0] < 1 for state in watched.states()):
            time.sleep(0.01)
    if step not in HELD:
        told(step)
    stood.wait()


def send(root):
    """Send numbers, seven at a time, from where the intake ends; never processed on purpose."""
    watched = Watched(LocalCluster(root))
    watched.start()
    number = watched.sent()
    while True:
        watched.running.send("in", [{"v": number + at} for at in range(7)])
        number += 7
        sys.stdout.write(f"accepted {number}\n")
        sys.stdout.flush()
        time.sleep(0.02)


if __name__ == "__main__":
    logging.getLogger("atoll").addHandler(logging.NullHandler())
    send(sys.argv[1]) if sys.argv[2] == "send" else live(*sys.argv[1:3])
