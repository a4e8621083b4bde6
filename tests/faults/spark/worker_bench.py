"""One running module whose functions stand still when they are told to, and what is done to it."""

from __future__ import annotations

import math
import time

import worker_scenario as scenario
from spark_processes import is_alive, wait_until, worker_pids

from atoll import path
from atoll.cluster.local import LocalCluster
from atoll.microbatch.commits.history import read_commit
from atoll.spark.standing.tasks import StandingTasks, standing_tasks
from atoll.storage.local import LocalStore

CAP_SECONDS = 180.0
TIMEOUT_SECONDS_LEAST = 3
"""Ending an attempt ends its warm workers, so the time must do for cold ones on a busy machine."""
GONE_SECONDS = 60.0
"""Spark kills a cancelled task's worker half a second later; the rest is for a busy machine."""


class Bench:
    """One running module, its marker files, and how many rounds of records it has got.

    Args:
        folder: For all of it.
        limited: Whether an attempt has little time.
        timeout_seconds: How much; by default as the first microbatch shows that it needs.
    """

    def __init__(self, folder, *, limited, timeout_seconds=None):
        self.folder = folder / "marks"
        self.folder.mkdir()
        self.root = folder / "root"
        self.cluster = LocalCluster(self.root)
        self.app = self.cluster.deploy(scenario.build(self.folder))
        self.rounds = 0
        began = time.monotonic()
        self.round()
        cold = time.monotonic() - began
        self.timeout_seconds = timeout_seconds or max(TIMEOUT_SECONDS_LEAST, math.ceil(3 * cold))
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

    @property
    def standing(self) -> StandingTasks:
        """The standing tasks of the process."""
        return standing_tasks(self.cluster._engine.session, seated=False)

    def stand(self, *gone):
        """Return when tasks of both units stand, none of them one that is gone; who they are."""

        def both():
            pids = self.standing.processes()
            return {"post 0", "post 1"} <= pids.keys() and not set(gone) & set(pids.values())

        wait_until(both, CAP_SECONDS, "standing tasks")
        return [self.standing.processes()[each] for each in ("post 0", "post 1")]

    def stands_again(self, *gone):
        """Tasks come again, and the next microbatch runs on them."""
        self.stand(*gone)
        self.round()
        assert set(self.app.topology("mb").status()["jobs"]) == {"standing"}
        self.check()

    def check(self):
        """Both states are what a plain fold gives."""
        expected = scenario.expected(self.rounds)
        for name in ("counts", "sums"):
            assert dict(self.app.pstate(name).select(path.all())) == expected, name
