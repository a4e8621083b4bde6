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


def test_those_of_earlier_lives_are_told_by_the_root(tmp_path):
    """What commits say; what only that life knew is None. Abandoned ones are left out."""
    with TopologyTestDriver(module(), engine="inline", root=tmp_path) as driver:
        for n in range(4):
            driver.depot("numbers").append({"v": n})
            driver.microbatch()
        before = driver.topology("mb").recent_microbatches()
        assert [each["id"] for each in before] == [1, 2, 3, 4]
        driver.restart()
        found = driver.topology("mb").recent_microbatches()
        plain = ("id", "version", "committed_at_ms", "records", "ranges")
        assert [[each[name] for name in plain] for each in found] == [
            [each[name] for name in plain] for each in before
        ]
        assert {each["failed_attempts"] for each in found} == {None}
        assert {each["total"] for each in found} == {None}
        driver.topology("mb").rollback(2)
        driver.restart()
        driver.topology("mb").resume()
        driver.microbatch()
        found = driver.topology("mb").recent_microbatches()
        assert [(each["id"], each["total"] is None) for each in found] == [
            (1, True),
            (2, True),
            (3, False),
        ]


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
