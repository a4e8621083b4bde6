"""The steps that go by time between column steps of Spark's, as Spark jobs."""

from __future__ import annotations

import datetime as dt

import pytest

import atoll
from atoll import Map, agg, start
from atoll.testing import TopologyTestDriver

DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def count_down(row, users, timers):
    """Counts, and asks to be called a second later."""
    key = row.who + "!"
    users[key] = users.get(key, 0) + 1
    timers.at(timers.now_ms + 1_000, row.who)


def done(timer, users, timers):
    """Tells whose timer it was."""
    yield {"who": timer.payload, "n": users[timer.key]}


def everything():
    """Windows with late rows, sessions, timers by a computed key, and a tick, in one topology."""
    module = atoll.Module("spark-time")
    clicks = module.depot("clicks", "who string, at timestamp", partition_by="who", partitions=2)
    closed = module.depot(
        "closed", "who string, window_start timestamp, window_end timestamp, n long", partitions=1
    )
    sat = module.depot("sat", "who string, window_end timestamp, n long", partitions=1)
    late = module.depot("late", "who string, seconds long", partitions=1)
    fired = module.depot("fired", "who string, n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    users = mb.pstate("users", Map(str, int))
    ticks = mb.pstate("ticks", Map(int, int))
    rows = (
        mb.source(clicks, start_from=start.beginning())
        .with_columns(who="lower(who)")
        .with_watermark("at", "10 seconds")
    )
    in_time, too_late = rows.window("at", "10 seconds", split_late=True)
    in_time.aggregate_windows("who", n=agg.count()).where("n > 0").append_to(closed)
    too_late.select("who", "cast(unix_timestamp(at) % 86400 AS bigint) AS seconds").append_to(late)
    sessions = rows.session_window("at", "5 seconds")
    sessions.aggregate_windows("upper(who) AS who", n=agg.count()).select(
        "who", "window_end", "n"
    ).append_to(sat)
    rows.process(
        count_down,
        key="concat(who, '!')",
        states=[users],
        on_timer=done,
        emits="who string, n long",
    ).append_to(fired)
    tick = mb.source(module.tick("tick", "1 minute"))
    tick.with_columns(minute="minute(at)").aggregate(ticks["minute"], agg.count())
    return module


def read(driver, depot):
    """All records of a depot with one partition, in order."""
    there = driver.depot(depot)
    return there.read(0, 0, there.end_offsets()[0]).to_pylist()


def click(who, seconds):
    """A click that many seconds after midnight."""
    return {"who": who, "at": DAY + dt.timedelta(seconds=seconds)}


@pytest.mark.slow
def test_time_on_spark():
    """Each step sees the plan's time, also in an attempt after one that failed."""
    with TopologyTestDriver(everything(), engine="spark") as driver:
        driver.depot("clicks").append([click(w, s) for w, s in [("A", 1), ("a", 4), ("B", 12)]])
        driver.microbatch()
        driver.depot("clicks").append([click("a", 30)])
        driver.advance(60)
        driver.fail_next_attempt(after_work=True)
        driver.run_until_idle()
        driver.depot("clicks").append([click("b", 3)])
        driver.run_until_idle()
        closed = [(r["who"], r["window_end"].second, r["n"]) for r in read(driver, "closed")]
        assert sorted(closed) == [("a", 10, 2), ("b", 20, 1)]
        sat = [(r["who"], r["window_end"].second, r["n"]) for r in read(driver, "sat")]
        assert sorted(sat) == [("A", 9, 2), ("B", 17, 1)]
        assert read(driver, "late") == [{"who": "b", "seconds": 3}]
        assert sorted((r["who"], r["n"]) for r in read(driver, "fired")) == [("a", 2), ("b", 1)]
        assert driver.pstate("ticks").get() == {1: 1}
        assert driver.status()["time"]["dropped"] == {"session_window.at": 1}


@pytest.mark.slow
def test_small_microbatches_of_windows_need_no_exchange():
    """Each actor assigns the windows for itself; the watermark is told once."""
    module = atoll.Module("direct")
    clicks = module.depot("clicks", "who string, at timestamp", partition_by="who", partitions=2)
    closed = module.depot(
        "closed", "who string, window_start timestamp, window_end timestamp, n long", partitions=1
    )
    mb = module.microbatch("mb", vnode_count=4)
    rows = mb.source(clicks, start_from=start.beginning()).with_watermark("at", "0 seconds")
    windows = rows.window("at", "10 seconds")
    windows.aggregate_windows("who", n=agg.count()).append_to(closed)
    with TopologyTestDriver(module, engine="spark") as driver:
        driver.depot("clicks").append([click("a", 1), click("b", 2), click("a", 3)])
        driver.microbatch()
        driver.depot("clicks").append([click("a", 12), click("b", 4)])
        driver.run_until_idle()
        assert sorted((r["who"], r["n"]) for r in read(driver, "closed")) == [("a", 2), ("b", 2)]
        driver.depot("clicks").append([click("a", 5)])
        driver.microbatch()
        assert driver.status()["time"]["dropped"] == {"window.at": 1}
        executor = driver._loop(None).executor.executor
        assert executor.plain[0]
