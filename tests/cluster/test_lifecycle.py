"""A topology's life: where it starts, pause and resume, status, limits, fencing, retention."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

import atoll
from atoll import Map, agg, start
from atoll.cluster.local import LocalCluster
from atoll.errors import FencedError, TopologyFailedError, WaitTimeoutError
from atoll.pstate.store.environment import shared_environments


def _module(name="life", *, start_from=None, options=None, **depot):
    module = atoll.Module(name)
    rows = module.depot("rows", "v long", partitions=2, **depot)
    mb = module.microbatch("mb", vnode_count=4, options=options)
    total = mb.pstate("total", int, initial=0)
    mb.source(rows, start_from=start_from).aggregate(total, agg.sum("v"))
    return module


def _append(app, values):
    app.depot("rows").append([{"v": value} for value in values])


@pytest.mark.parametrize(
    ("start_from", "expected"),
    [
        (None, 0),
        (start.beginning(), 55),
        (start.ago(1, "records"), None),
        (start.ago(1, "days"), 55),
    ],
)
def test_a_new_topology_starts_where_it_says_and_later_goes_on(tmp_path, start_from, expected):
    """The start counts at the first encounter alone; a restart goes on from the last commit."""
    root = tmp_path / "root"
    with LocalCluster(root) as cluster:  # a depot with records, and a topology that reads none
        module = atoll.Module("life")
        module.depot("rows", "v long", partitions=2)
        app = cluster.deploy(module)
        _append(app, range(1, 11))
        ends = app.depot("rows").end_offsets()
        newest = sum(
            app.depot("rows").read(partition, end - 1, end).column("v")[0].as_py()
            for partition, end in enumerate(ends)
            if end
        )
    expected = newest if expected is None else expected
    for life in range(2):
        with LocalCluster(root) as cluster:
            app = cluster.deploy(_module(start_from=start_from))
            _append(app, [1000])
            topology = app.topology("mb")
            read = {None: 0, start.ago(1, "records"): sum(1 for end in ends if end)}
            topology.wait_processed(read.get(start_from, 10) + life + 1)
            assert app.pstate("total").get() == expected + 1000 * (life + 1)


def test_after_a_timestamp(tmp_path):
    """Records appended after the time are read, earlier ones are not."""
    root = tmp_path / "root"
    with LocalCluster(root) as cluster:
        module = atoll.Module("life")
        module.depot("rows", "v long", partitions=2)
        app = cluster.deploy(module)
        _append(app, [1, 2, 3])
        now = int(time.time() * 1000)
        while int(time.time() * 1000) <= now + 1:  # append times are whole milliseconds
            pass
        _append(app, [10, 20])
    with LocalCluster(root) as cluster:
        app = cluster.deploy(_module(start_from=start.after_timestamp(now)))
        app.topology("mb").wait_processed(2)
        assert app.pstate("total").get() == 30


def test_pause_resume_and_status(cluster):
    """Nothing runs while paused; the lag grows; the status tells id, step, lag and durations."""
    app = cluster.deploy(_module())
    topology = app.topology("mb")
    _append(app, [1, 2])
    topology.wait_processed(2)
    topology.pause()
    _append(app, [3, 4, 5])
    status = topology.status()
    assert status["state"] == "paused"
    assert sum(status["lag"]["rows"]) == 3
    assert len(status["lag"]["rows"]) == 2
    assert {"prime", "process", "commit", "publish", "tidy", "total"} <= set(status["durations_ms"])
    with pytest.raises(WaitTimeoutError) as raised:
        topology.wait_processed(5, timeout_seconds=0.5)
    assert raised.value.context["processed"] == 2
    topology.resume()
    topology.wait_processed(5)
    status = topology.status()
    assert (status["committed"], status["processed"], sum(status["lag"]["rows"])) == (2, 5, 0)
    assert app.pstate("total").get() == 15


def test_a_microbatch_takes_no_more_than_the_limit(cluster):
    """``depot.microbatch.max.records`` bounds what one depot partition gives."""
    app = cluster.deploy(_module(options={"depot.microbatch.max.records": 3}))
    topology = app.topology("mb")
    topology.pause()
    _append(app, range(20))
    ends = app.depot("rows").end_offsets()
    topology.resume()
    topology.wait_processed(20)
    topology.pause()  # returns when the last microbatch has been tidied up and is in the list
    batches = topology.recent_microbatches()
    assert all(each["records"] <= 6 for each in batches)
    assert len(batches) == max(-(-end // 3) for end in ends)
    assert app.pstate("total").get() == sum(range(20))


def test_an_attempt_that_takes_too_long_is_ended_and_said_so(cluster):
    """The phase timeout ends the Spark job; the topology fails with its code and can go on."""
    options = {
        "topology.microbatch.phase.timeout.seconds": 3,
        "topology.microbatch.retry.max.attempts": 1,
    }
    module = atoll.Module("slow")
    rows = module.depot("rows", "v long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4, options=options)
    total = mb.pstate("total", int, initial=0)

    def hang(row):
        threading.Event().wait(60)
        return row

    mb.source(rows).map(hang, emits="v long").aggregate(total, agg.sum("v"))
    app = cluster.deploy(module)
    _append(app, [1])
    with pytest.raises(TopologyFailedError):
        app.topology("mb").wait_processed(1, timeout_seconds=120)
    status = app.topology("mb").status()
    assert status["error"]["code"] == "E-PHASE-TIMEOUT"
    assert (status["state"], status["committed"]) == ("failed", 0)
    assert app.pstate("total").get() == 0


def test_the_next_attempt_begins_when_the_workers_of_the_last_are_gone(cluster, tmp_path):
    """An attempt that hung is over when nothing of it runs: its Python workers have ended."""
    module = atoll.Module("hung")
    rows = module.depot("rows", "v long", partitions=1)
    options = {"topology.microbatch.phase.timeout.seconds": 5}
    mb = module.microbatch("mb", vnode_count=4, options=options)
    total = mb.pstate("total", int, initial=0)
    hung, notes = tmp_path / "hung", tmp_path / "notes"

    def hang_once(row):
        if not hung.exists():
            hung.write_text(str(os.getpid()))
            threading.Event().wait(120)
        alive = Path("/proc", hung.read_text()).exists()
        with notes.open("a") as file:
            file.write(f"{alive}\n")
        return row

    mb.source(rows).map(hang_once, emits="v long").aggregate(total, agg.sum("v"))
    app = cluster.deploy(module)
    _append(app, [7])
    app.topology("mb").wait_processed(1, timeout_seconds=300)
    assert hung.exists(), "no attempt hung"
    assert set(notes.read_text().split()) == {"False"}, "its worker was alive in a later attempt"
    assert app.pstate("total").get() == 7


def test_a_checkpoint_on_request(cluster):
    """It holds all that changed, without a new record; what is there already is not written."""
    app = cluster.deploy(_module("asked"))
    topology = app.topology("mb")
    _append(app, [1, 2])
    topology.wait_processed(2)
    before = topology.status()["committed"]
    assert topology.checkpoint() == before + 1
    folder = cluster.root / "asked" / "mb" / "checkpoints"
    files = sorted(folder.rglob("*.arrow"))
    assert files
    assert topology.checkpoint() == before + 1
    assert sorted(folder.rglob("*.arrow")) == files
    topology.pause()
    shutil.rmtree(cluster.root / "local")
    topology.resume()
    _append(app, [4])
    topology.wait_processed(3)
    assert app.pstate("total").get() == 7


def test_a_hung_attempt_is_ended_when_a_second_cluster_takes_over(tmp_path):
    """Fenced in the middle of an attempt: over within 5 seconds; the new life does the work."""
    root = tmp_path / "root"
    flag = tmp_path / "hangs"
    flag.touch()

    def hang(row):
        while flag.exists():
            threading.Event().wait(0.05)
        return row

    def module():
        made = atoll.Module("doubled")
        rows = made.depot("rows", "v long", partitions=1)
        mb = made.microbatch("mb", vnode_count=4)
        total = mb.pstate("total", int, initial=0)
        mb.source(rows).map(hang, emits="v long").aggregate(total, agg.sum("v"))
        return made

    with LocalCluster(root) as old, LocalCluster(root) as new:
        first = old.deploy(module())
        _append(first, [5])
        ends_at = time.monotonic() + 60
        while first.topology("mb").status()["step"] != "process":
            assert time.monotonic() < ends_at
        told = threading.Event()
        first.on_fenced(lambda _reason: told.set())
        began = time.monotonic()
        second = new.deploy(module())
        assert told.wait(60)
        assert time.monotonic() - began < 30
        with pytest.raises(FencedError) as raised:
            first.topology("mb").wait_processed(1)
        assert "process" in raised.value.message
        assert first.fenced is not None
        flag.unlink()
        second.topology("mb").wait_processed(1)
        assert second.pstate("total").get() == 5
        assert first.topology("mb").status()["committed"] == 0


def test_a_second_cluster_on_the_root_fences_the_first(tmp_path):
    """The older one stops within seconds, says who fenced it, and acknowledges nothing more."""
    root = tmp_path / "root"
    with LocalCluster(root) as old, LocalCluster(root) as new:
        first = old.deploy(_module())
        _append(first, [1])
        first.topology("mb").wait_processed(1)
        second = new.deploy(_module())
        with pytest.raises(FencedError):
            _append(first, [100])
        with pytest.raises(FencedError) as raised:
            first.topology("mb").wait_processed(2, timeout_seconds=60)
        assert "process" in str(raised.value)
        assert first.topology("mb").status()["state"] == "fenced"
        _append(second, [10])
        second.topology("mb").wait_processed(2)
        assert second.pstate("total").get() == 11


def test_the_log_does_not_grow_for_ever(cluster):
    """After many commits the plans, commits and logs that nobody needs are gone.

    Some keys change in two microbatches running, so that a checkpoint is written with their last
    change, and never again: what their stores hold must stay readable without that commit.
    """
    options = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 5}
    module = atoll.Module("tidy")
    rows = module.depot("rows", "k long, v long", partitions=2)
    mb = module.microbatch("mb", vnode_count=256, options=options)
    sums = mb.pstate("sums", Map(int, int))
    mb.source(rows).aggregate(sums["k"], agg.sum("v"))
    app = cluster.deploy(module)
    expected: dict[int, int] = {}
    for number in range(50):
        key = 100 + number // 2 if number < 20 else number % 3
        app.depot("rows").append([{"k": key, "v": number}])
        expected[key] = expected.get(key, 0) + number
        app.topology("mb").wait_processed(number + 1)
    folder = cluster.root / "tidy" / "mb"
    app.topology("mb").pause()
    assert len(list((folder / "commits").iterdir())) <= 15
    assert len(list((folder / "plans").iterdir())) <= 15
    assert len(list((folder / "logs").rglob("*.arrow"))) <= 30
    assert {k: app.pstate("sums").get(k) for k in expected} == expected
    app.topology("mb").resume()
    app.depot("rows").append([{"k": key, "v": 1} for key in expected])
    app.topology("mb").wait_processed(50 + len(expected))
    assert {k: app.pstate("sums").get(k) for k in expected} == {
        k: total + 1 for k, total in expected.items()
    }


def test_a_cluster_that_is_closed_leaves_no_store_open(tmp_path):
    """Each holds files and memory, and nobody would ever come back to those of a dropped folder."""
    before = set(shared_environments()._open)
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(_module(start_from=start.beginning()))
        _append(app, [1, 2])
        app.topology("mb").wait_processed(2)
        assert app.pstate("total").get() == 3
        opened = set(shared_environments()._open) - before
    assert opened
    assert set(shared_environments()._open) <= before
