"""Ticks: records that come by the clock, the same in every attempt."""

from __future__ import annotations

import datetime as dt

import pytest

import atoll
from atoll import Map, agg, start
from atoll.errors import DeclarationError, DeployError
from atoll.testing import TopologyTestDriver, VirtualClock

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def ticking(every="3 seconds", topologies=1):
    """Keeps which ticks each topology has seen, and counts them; beside it a depot counts."""
    module = atoll.Module("ticks")
    tick = module.tick("tick", every)
    words = module.depot("words", "word string", partitions=1)
    for number in range(topologies):
        mb = module.microbatch(f"mb{number}", vnode_count=4)
        seen = mb.pstate(f"seen{number}", Map(int, dt.datetime))
        mb.source(tick).aggregate(seen["tick"], agg.last("at"))
        counts = mb.pstate(f"counts{number}", Map(str, int))
        mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.count())
    return module


def seconds(driver, number=0):
    """The times of the ticks seen, in seconds after the beginning."""
    seen = driver.pstate(f"seen{number}").get().values()
    return [(at - BEGIN).total_seconds() for at in seen]


def test_a_tick_of_three_seconds_comes_three_times_in_ten():
    """Rama's example."""
    with TopologyTestDriver(ticking(), engine="inline") as driver:
        for _ in range(100):
            driver.advance(0.1)
            driver.run()
        assert seconds(driver) == [3, 6, 9]
        assert driver.status()["committed"] == 3
        assert driver.status()["processed"] == 0, "ticks are no records"


def test_missed_ticks_are_not_made_up_for():
    """A microbatch has at most one: the newest."""
    with TopologyTestDriver(ticking(), engine="inline") as driver:
        driver.advance(10)
        assert [each.ranges["words"] for each in driver.run_until_idle()] == [[(0, 0)]]
        assert seconds(driver) == [9]
        driver.advance(1.999)
        assert driver.run_until_idle() == []
        driver.advance(0.001)
        driver.run_until_idle()
        assert seconds(driver) == [9, 12]


def test_a_life_that_commits_nothing_forgets_no_tick(tmp_path):
    """The first tick is the first after the first deployment, however many lives come before it."""
    with TopologyTestDriver(ticking(), engine="inline", root=tmp_path) as driver:
        for _ in range(3):
            driver.advance(2)
            driver.restart()
        driver.run_until_idle()
        assert seconds(driver) == [6]
        driver.advance(3)
        driver.restart()
        assert len(list((tmp_path / "ticks" / "deployments").iterdir())) == 1
        driver.run_until_idle()
        assert seconds(driver) == [6, 9]


def test_every_attempt_and_life_sees_the_tick_of_the_plan():
    """Though the clock goes on between attempts, and the process may die between them."""
    with TopologyTestDriver(ticking(), engine="inline") as driver:
        driver.advance(3)
        driver.fail_next_attempt(after_work=True)
        assert driver.step() == "prime"
        assert driver.step() == "failed"
        driver.advance(30)
        driver.restart()
        assert driver.microbatch().id == 1
        assert seconds(driver) == [3]
        driver.microbatch()
        assert seconds(driver) == [3, 33]


def test_a_restart_begins_where_the_last_life_ended():
    """The first tick is the first after the first deployment, in whatever life it comes."""
    with TopologyTestDriver(ticking(), engine="inline") as driver:
        driver.advance(2)
        driver.restart()
        driver.advance(1)
        driver.run()
        driver.restart()
        assert driver.run() == []
        assert seconds(driver) == [3]


def test_a_clock_that_was_set_back_repeats_no_tick(tmp_path):
    """Processing time waits until the clock has caught up."""
    module = ticking()
    late = VirtualClock(BEGIN + dt.timedelta(seconds=60))
    with TopologyTestDriver(
        module, engine="inline", root=tmp_path, clock=VirtualClock(BEGIN)
    ) as one:
        one.advance(60)
        one.run()
        assert late.now_ms() == one.clock.now_ms()
    with TopologyTestDriver(
        module, engine="inline", root=tmp_path, clock=VirtualClock(BEGIN)
    ) as two:
        two.advance(30)
        two.depot("words").append([{"word": "a"}])
        two.run()
        assert seconds(two) == [60]
        assert two.status()["time"]["now_ms"] == late.now_ms()
        two.advance(33)
        two.run()
        assert seconds(two) == [60, 63]


def test_topologies_read_a_tick_each_for_itself():
    """With records of depots beside it."""
    with TopologyTestDriver(ticking(topologies=2), engine="inline") as driver:
        driver.depot("words").append([{"word": "a"}, {"word": "a"}])
        driver.advance(4)
        assert [each.records for each in driver.run()] == [2, 2]
        assert seconds(driver, 0) == seconds(driver, 1) == [3]
        assert driver.pstate("counts1").get() == {"a": 2}


def test_a_rollback_takes_ticks_back():
    """They are not read again: by then others are the newest."""
    with TopologyTestDriver(ticking(), engine="inline") as driver:
        for _ in range(3):
            driver.advance(3)
            driver.run()
        driver.topology("mb0").rollback(1)
        driver.topology("mb0").resume()
        driver.run_until_idle()
        assert seconds(driver) == [3, 9]


def test_an_interval_is_fixed_for_life():
    """Its ticks are numbered by it."""
    with TopologyTestDriver(ticking(), engine="inline") as driver:
        with pytest.raises(DeployError, match="tick 'tick': the interval is fixed"):
            driver.update(ticking("4 seconds"))
        other = atoll.Module("ticks")
        other.depot("tick", "v long")
        with pytest.raises(DeployError, match="tick 'tick': no longer declared"):
            driver.update(other)


def test_mistakes_of_declaring():
    """Errors with a hint, where they are made."""
    module = atoll.Module("m")
    tick = module.tick("tick", dt.timedelta(seconds=1))
    with pytest.raises(DeclarationError, match="declared twice"):
        module.depot("tick", "v long")
    with pytest.raises(DeclarationError, match="declared twice"):
        module.tick("tick", "1 second")
    with pytest.raises(DeclarationError, match="the time between two ticks of 'x' cannot be"):
        module.tick("x", "3 parsecs")
    with pytest.raises(DeclarationError, match="belongs to module 'm'"):
        atoll.Module("other").microbatch("mb").source(tick)
    with pytest.raises(DeclarationError, match="cannot be read from"):
        module.microbatch("mb").source(tick, start_from=start.beginning())
    with pytest.raises(DeclarationError, match="append_to takes a depot"):
        module.microbatch("again").source(tick).append_to(tick)
