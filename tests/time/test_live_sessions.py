"""Sessions in a PState: at every commit those of the rows so far, however they came."""

from __future__ import annotations

import datetime as dt
import random

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

GAP_MS = 5_000
NODE = Struct(n=int, total=int, vs=List(int))


def build(vnodes, partitions):
    """Sessions of a struct by one key, and of a count by two; and what changed in the first."""
    module = atoll.Module("sessions")
    rows = module.depot(
        "rows", "k string, k2 long, at long, v long", partition_by="k", partitions=partitions
    )
    gone = module.depot("gone", "k string, start long, end long", partitions=1)
    mb = module.microbatch("mb", vnode_count=vnodes)
    by_key = mb.pstate("by_key", Map(str, Map(int, Map(int, NODE))))
    by_two = mb.pstate("by_two", Map(int, Map(str, Map(int, Map(int, int)))))
    source = mb.source(rows)
    window = source.session_window("at", "5 seconds")
    written = window.aggregate(
        by_key["k"]["window_start"]["window_end"],
        n=agg.count(),
        total=agg.sum("v"),
        vs=agg.collect_list("v"),
    )
    window.aggregate(by_two["k2"]["k"]["window_start"]["window_end"], agg.count())
    written.changes().flat_map(
        lambda row: (
            [{"k": row.k, "start": row.window_start, "end": row.window_end}]
            if row.new is None
            else []
        ),
        emits="k string, start long, end long",
    ).append_to(gone)
    return module


def sessions_of(rows):
    """The runs of rows between which nothing came for the gap, by start and end."""
    found = {}
    ordered = sorted(rows, key=lambda row: row["at"])
    run = []
    for row in [*ordered, None]:
        if run and (row is None or row["at"] >= run[-1]["at"] + GAP_MS):
            found.setdefault(run[0]["at"], {})[run[-1]["at"] + GAP_MS] = run
            run = []
        if row is not None:
            run.append(row)
    return found


def shown(found, value):
    """Nested as the PState is."""
    return {s: {e: value(run) for e, run in of.items()} for s, of in found.items()}


def summary(run):
    """Of a session; the order of a list depends on that of the rows."""
    values = [row["v"] for row in run]
    return {"n": len(run), "total": sum(values), "vs": sorted(values)}


def with_sorted_lists(state):
    """The state with lists in an order that means nothing."""
    return {
        k: {s: {e: {**v, "vs": sorted(v["vs"])} for e, v in of.items()} for s, of in starts.items()}
        for k, starts in state.items()
    }


@pytest.mark.parametrize(
    ("vnodes", "partitions", "actors"), [(1, 1, 1), (16, 3, 2), (64, 2, 3), (5, 4, 2)]
)
def test_equal_to_a_recount_at_every_commit(vnodes, partitions, actors):
    """Rows out of order, attempts that fail after their work, a reschedule and a restart."""
    dice = random.Random(vnodes)
    done = []
    with TopologyTestDriver(build(vnodes, partitions), parallelism=actors) as driver:
        for turn in range(12):
            rows = [
                {
                    "k": dice.choice("abc"),
                    "k2": dice.randint(1, 2),
                    "at": dice.randrange(-20_000, 120_000),
                    "v": dice.randrange(100),
                }
                for _ in range(dice.randint(1, 12))
            ]
            driver.depot("rows").append(rows)
            done += rows
            if dice.random() < 0.4:
                driver.fail_next_attempt(after_work=True)
            if turn == 5:
                driver.app.cluster.set_parallelism("mb", f"fixed({dice.randint(1, 4)})")
            if turn == 8:
                driver.step()
                driver.restart()
            driver.run_until_idle()
            keys = sorted({row["k"] for row in done})
            assert with_sorted_lists(driver.pstate("by_key").get()) == {
                k: shown(sessions_of([row for row in done if row["k"] == k]), summary) for k in keys
            }
            assert driver.pstate("by_two").get() == {
                k2: {
                    k: shown(sessions_of(of), len)
                    for k in keys
                    if (of := [row for row in done if (row["k"], row["k2"]) == (k, k2)])
                }
                for k2 in sorted({row["k2"] for row in done})
            }
        there = driver.depot("gone")
        removed = there.read(0, 0, there.end_offsets()[0]).to_pylist()
    assert removed, "sessions became longer, and what they were is told as gone"


def test_timestamps_are_keys_too():
    """An event time of microseconds counts by the millisecond, as all windows do."""
    module = atoll.Module("timestamps")
    rows = module.depot("rows", "k string, at timestamp", partition_by="k")
    mb = module.microbatch("mb", vnode_count=4)
    kept = mb.pstate("kept", Map(str, Map(dt.datetime, Map(dt.datetime, int))))
    window = mb.source(rows).session_window("at", "10 seconds")
    window.aggregate(kept["k"]["window_start"]["window_end"], agg.count())
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    with TopologyTestDriver(module) as driver:
        seconds = [0, 9.5, 30]
        driver.depot("rows").append(
            [{"k": "a", "at": begin + dt.timedelta(seconds=each)} for each in seconds]
        )
        driver.microbatch()
        wanted = [(0, 19.5, 2), (30, 40, 1)]
        assert driver.pstate("kept").get("a") == {
            begin + dt.timedelta(seconds=s): {begin + dt.timedelta(seconds=e): n}
            for s, e, n in wanted
        }


TIMES = ("window_start", "window_end")


@pytest.mark.parametrize(
    ("node", "keys", "aggregate", "said"),
    [
        (Map(str, Map(int, int)), ("k", "window_start"), agg.count(), "by key, start and end"),
        (Map(int, Map(int, int)), TIMES, agg.count(), "by key, start and end"),
        (
            Map(str, Map(int, Map(int, int))),
            ("k", "window_end", "window_start"),
            agg.count(),
            "by key, start and end",
        ),
        (
            Map(str, Map(int, Map(int, int))),
            ("k", *TIMES),
            agg.accumulate(lambda a, b: a + b, "v", initial=0),
            "cannot be merged when two sessions",
        ),
        (
            Map(str, Map(int, Map(int, int))),
            ("k", *TIMES),
            agg.count_distinct("v"),
            "cannot be merged when two sessions",
        ),
        (
            Map(str, Map(int, Map(int, Set(int)))),
            ("k", *TIMES),
            agg.collect_set("v"),
            "cannot be merged when two sessions",
        ),
    ],
)
def test_refused_where_it_is_declared(node, keys, aggregate, said):
    """A session needs a key that stays, and a value that merges."""
    module = atoll.Module("refused")
    rows = module.depot("rows", "k string, at long, v long")
    mb = module.microbatch("mb", vnode_count=2)
    target = mb.pstate("there", node)
    for key in keys:
        target = target[key]
    with pytest.raises(DeclarationError, match=said) as error:
        mb.source(rows).session_window("at", "1 second").aggregate(target, aggregate)
    assert "test_live_sessions.py" in error.value.context["declared"]
