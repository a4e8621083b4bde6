"""How long nothing is committed on a standalone cluster when something happens to it.

A master and three workers of real processes on this machine, a record appended every 20 ms, and
the longest time between two commits after each event: none, a standing task killed, an executor
killed, a worker killed with all that it runs, and another worker that joins. In the end the state
is compared with a recount.

Workers are the hosts 127.0.0.1 to 127.0.0.4, so it needs Linux. It takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "faults" / "spark"))

MODULE = "gaps"
TIMEOUT_SECONDS = 120.0
EVERY_SECONDS = 0.02
LOOK_SECONDS = 0.001
KEYS = 100
WORKERS = 3


def declare() -> Any:
    """A sum per key."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module(MODULE)
    events = module.depot("events", "k long, v long", partitions=4)
    mb = module.microbatch("mb", vnode_count=32)
    sums = mb.pstate("sums", Map(int, int))
    mb.source(events, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    return module


class Traffic:
    """Appends records, and notes when commits are seen. A context manager."""

    def __init__(self, app: Any) -> None:
        """Nothing runs before it is entered."""
        self.app = app
        self.expected: Counter[int] = Counter()
        self.commits: list[float] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._append, self._watch)]

    def _append(self) -> None:
        depot, number = self.app.depot("events"), 0
        while not self._over.wait(EVERY_SECONDS):
            depot.append({"k": number % KEYS, "v": number})
            self.expected[number % KEYS] += number
            number += 1

    def _watch(self) -> None:
        topology, seen = self.app.topology("mb"), -1
        while not self._over.wait(LOOK_SECONDS):
            committed = topology.status()["committed"]
            if committed != seen:
                self.commits.append(time.monotonic())
                seen = committed

    def longest_gap_ms(self, since: float) -> float:
        """The longest time without a commit, one that still lasts included."""
        before = [at for at in self.commits if at < since][-1:]
        times = [*before, *(at for at in self.commits if at >= since), time.monotonic()]
        return max(later - at for at, later in pairwise(times)) * 1000

    def __enter__(self) -> Self:
        """Begin."""
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End; the last record was appended."""
        self._over.set()
        for each in self._threads:
            each.join()


def measured(traffic: Traffic, event: Callable[[], object], seconds: float) -> dict[str, Any]:
    """What an event does to the commits of so many seconds."""
    jobs = Counter(traffic.app.topology("mb").status()["jobs_total"])
    since = time.monotonic()
    event()
    time.sleep(max(0.0, since + seconds - time.monotonic()))  # the time that is looked at
    status = traffic.app.topology("mb").status()
    return {
        "gap_ms": round(traffic.longest_gap_ms(since)),
        "jobs": dict(Counter(status["jobs_total"]) - jobs),
    }


def run(seconds: float) -> dict[str, Any]:
    """All events one after the other."""
    from standalone import Standalone

    from atoll.cluster.spark import SparkCluster
    from atoll.spark.standing.tasks import standing_tasks

    settings = {"spark.executor.memory": "512m"}
    with (
        tempfile.TemporaryDirectory(prefix=f"{MODULE}-") as name,
        Standalone(Path(name), cores=4) as spark,
    ):
        for number in range(1, WORKERS + 1):
            spark.add_worker(number)
        root = Path(name) / "root"
        with SparkCluster(root, spark.url, units_per_worker=2, settings=settings) as cluster:
            until(lambda: len(cluster.present()) == WORKERS)
            app = cluster.deploy(declare())
            standing = standing_tasks(cluster._spark.session, seated=True)  # noqa: SLF001 - who stands
            until(lambda: len(standing.processes()) == 2 * WORKERS)

            def kill_a_task() -> None:
                os.kill(next(iter(standing.processes().values())), signal.SIGKILL)

            events: dict[str, Callable[[], object]] = {
                "none": lambda: None,
                "a standing task killed": kill_a_task,
                "an executor killed": lambda: spark.kill_executor(2),
                "a worker killed": lambda: spark.kill_worker(3),
                "a worker joins": lambda: spark.add_worker(4),
            }
            with Traffic(app) as traffic:
                until(lambda: len(traffic.commits) > 2 / EVERY_SECONDS)
                report = {each: measured(traffic, event, seconds) for each, event in events.items()}
            app.wait_committed("events", timeout_seconds=TIMEOUT_SECONDS)
            sums = {key: app.pstate("sums").get(key) or 0 for key in range(KEYS)}
            if sums != {key: traffic.expected[key] for key in range(KEYS)}:
                raise SystemExit("the sums are not those of a recount")
    return report


def until(done: Callable[[], bool]) -> None:
    """Wait for a condition."""
    over = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        if time.monotonic() > over:
            raise SystemExit("the cluster did not get ready")
        time.sleep(LOOK_SECONDS)


def main() -> None:
    """Run it and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="looked at after each event")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = run(arguments.seconds)
    load = round(os.getloadavg()[0], 2)
    if arguments.json:
        print(json.dumps({"events": report, "load_average": load}))
        return
    print(f"longest time without a commit (load average {load})")
    for event, each in report.items():
        print(f"  {event:24} {each['gap_ms']:6} ms   jobs {each['jobs']}")


if __name__ == "__main__":
    main()
