"""Waiting for what was appended: until readers see it, and no longer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import atoll
from atoll import LocalCluster, agg, start
from atoll.errors import NotFoundError, TopologyFailedError, UsageError, WaitTimeoutError
from atoll.testing import TopologyTestDriver


def module(gate=None):
    """Two topologies count one depot, the second behind a gate; another depot only the first."""
    made = atoll.Module("waited")
    numbers = made.depot("numbers", "v long", partitions=2)
    others = made.depot("others", "v long", partitions=1)
    first = made.microbatch("first", vnode_count=1)
    total = first.pstate("total", int, initial=0)
    first.source(numbers, start_from=start.beginning()).aggregate(total, agg.sum("v"))
    first.source(others, start_from=start.beginning()).aggregate(total, agg.sum("v"))
    options = {"topology.microbatch.retry.max.attempts": 1}
    second = made.microbatch("second", vnode_count=1, options=options)

    def held(batches):
        for batch in batches:
            if gate is not None:
                gate(batch.column("v").to_pylist())
            yield batch

    rows = second.source(numbers, start_from=start.beginning()).map_batches(held, emits="v long")
    rows.aggregate(second.pstate("late", int, initial=0), agg.sum("v"))
    return made


def ends_of(appended):
    """What an append says of where its records lie, as the offsets behind them."""
    return {partition: end for partition, (_, end) in appended.offsets.items()}


def test_it_waits_for_every_topology_that_reads_the_depot_and_for_no_other():
    """The one behind the gate holds it back, and only for the depot that it reads."""
    open_gate, arrived = threading.Event(), threading.Event()

    def gate(_values):
        arrived.set()
        assert open_gate.wait(30)

    with LocalCluster(engine="inline") as cluster, ThreadPoolExecutor(1) as thread:
        app = cluster.deploy(module(gate))
        appended = app.depot("numbers").append([{"v": 1}, {"v": 2}])
        waiting = thread.submit(app.wait_committed, "numbers", ends_of(appended))
        assert arrived.wait(30)
        app.depot("others").append({"v": 10})
        assert set(app.wait_committed("others")) == {"first"}
        assert app.wait_fresh("total") >= 1
        assert app.pstate("total").get() == 13
        assert not waiting.done()
        with pytest.raises(WaitTimeoutError, match="'second' did not come to"):
            app.wait_fresh("late", timeout_seconds=0.05)
        open_gate.set()
        assert set(waiting.result(30)) == {"first", "second"}
        assert app.pstate("late").get() == 3


def test_what_is_appended_while_it_waits_is_not_waited_for():
    """The offsets are those of the call: under a steady load it returns."""
    with TopologyTestDriver(module(), engine="inline") as driver:
        app = driver.app
        appended = driver.depot("numbers").append([{"v": 1}])
        driver.app.options.set("depot.microbatch.max.records", 1)
        driver.depot("numbers").append([{"v": 2}] * 6)
        app.wait_committed("numbers", ends_of(appended))
        assert driver.pstate("total").get() < 13
        app.wait_committed("numbers")
        assert (driver.pstate("total").get(), driver.pstate("late").get()) == (13, 13)


def test_a_topology_that_rests_or_failed_is_told():
    """Paused: in the hint when the time is over; failed: at once."""

    def gate(values):
        if 13 in values:
            raise ValueError("13")

    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module(gate))
        app.topology("first").pause()
        app.depot("others").append({"v": 1})
        with pytest.raises(WaitTimeoutError) as raised:
            app.wait_committed("others", timeout_seconds=0.05)
        assert "resume" in raised.value.hint
        app.topology("first").resume()
        app.wait_committed("others")
        app.depot("numbers").append({"v": 13})
        with pytest.raises(TopologyFailedError, match="13"):
            app.wait_committed("numbers")


def test_mistakes():
    """No such depot, depot partition or PState."""
    with TopologyTestDriver(module(), engine="inline") as driver:
        with pytest.raises(NotFoundError, match="no depot 'none'"):
            driver.app.wait_committed("none")
        with pytest.raises(UsageError, match="depot partitions 0 to 1, not 2"):
            driver.app.wait_committed("numbers", {2: 1})
        with pytest.raises(NotFoundError, match="no PState 'none'"):
            driver.app.wait_fresh("none")
        with pytest.raises(WaitTimeoutError):
            driver.app.wait_committed("numbers", {0: 1})  # nobody has appended it
