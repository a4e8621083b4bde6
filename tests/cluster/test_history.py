"""What a topology says of its last microbatches: complete as soon as somebody sees them."""

from __future__ import annotations

import atoll
from atoll import LocalCluster, agg, start
from atoll.errors import StorageError
from atoll.testing import TopologyTestDriver


def module():
    """One topology adds numbers up."""
    made = atoll.Module("told")
    numbers = made.depot("numbers", "v long", partitions=2)
    mb = made.microbatch("mb", vnode_count=1)
    total = mb.pstate("total", int, initial=0)
    mb.source(numbers, start_from=start.beginning()).aggregate(total, agg.sum("v"))
    return made


def test_versions_ranges_and_failed_attempts_are_kept():
    """Of a microbatch that runs, and of the one that has committed."""
    with TopologyTestDriver(module(), engine="inline") as driver:
        driver.depot("numbers").append([{"v": 1}, {"v": 2}, {"v": 3}])
        driver.fail_next_attempt(times=2, error=StorageError("disk full", hint="make room"))
        assert [driver.step() for _ in range(2)] == ["prime", "failed"]
        status = driver.status()
        assert (status["version"], status["attempts_failed"]) == (1, 1)
        driver.microbatch()
        status = driver.status()
        assert (status["version"], status["attempts_failed"]) == (3, 0)
        told = [
            (each["version"], each["code"], each["message"], each["hint"])
            for each in status["failed_attempts"]
        ]
        expected = [(n, "E-STORAGE", "disk full", "make room") for n in (1, 2)]
        assert told == expected
        (entry,) = driver.topology("mb").recent_microbatches()
        assert (entry["id"], entry["version"], entry["records"]) == (1, 3, 3)
        assert sum(end - begin for begin, end in entry["ranges"]["numbers"]) == 3
        assert entry["failed_attempts"] == status["failed_attempts"]
        assert entry["total"] >= entry["process"] > 0
        driver.depot("numbers").append({"v": 4})
        driver.microbatch()
        assert driver.status()["failed_attempts"] == []
        assert [each["id"] for each in driver.topology("mb").recent_microbatches()] == [1, 2]


def test_it_is_there_when_a_wait_returns():
    """However quick whoever waited is."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module())
        for n in range(1, 30):
            topology = app.topology("mb")
            shown = topology.wait(app.depot("numbers").append({"v": n}))
            last = topology.recent_microbatches()[-1]
            assert (last["id"], last["records"]) == (shown, 1)
            assert {"prime", "process", "commit", "publish", "tidy", "total"} < set(last)
            assert topology.status()["version"] == 1
