"""``map_async``: as ``map`` does, so many calls at once, in order, each of them bounded in time."""

from __future__ import annotations

import asyncio

import pytest
from mistakes import refused

import atoll
from atoll import Map, agg, start
from atoll.errors import TopologyFailedError
from atoll.testing import TopologyTestDriver

ROW = "id long, wait long"
OUT = "id long, twice long, most long"


async def double(row):
    """Waits as the row says, and counts how many calls are under way."""
    from atoll_async_state import STATE

    STATE["now"] += 1
    STATE["calls"] += 1
    STATE["most"] = max(STATE["most"], STATE["now"])
    try:
        await asyncio.sleep(row.wait / 1_000)
        if row.id == 13:
            raise ValueError("unlucky")
    finally:
        STATE["now"] -= 1
    return {"id": row.id, "twice": 2 * row.id, "most": STATE["most"]}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A module of the same process, which the function that travels by value imports."""
    import sys
    import types

    made = types.ModuleType("atoll_async_state")
    made.STATE = {"now": 0, "most": 0, "calls": 0}
    monkeypatch.setitem(sys.modules, "atoll_async_state", made)
    return made.STATE


def module_of(function=double, dead_letter=False, **options):
    """A module that appends what the function gives, and counts it."""
    module = atoll.Module("asking")
    rows = module.depot("rows", ROW, partitions=1)
    out = module.depot("out", OUT, partitions=1)
    rejected = module.dead_letter_depot("rejected") if dead_letter else None
    mb = module.microbatch(
        "mb",
        vnode_count=2,
        dead_letter=rejected,
        options={"topology.microbatch.retry.max.attempts": 2},
    )
    counted = mb.pstate("counted", Map(int, int))
    given = mb.source(rows, start_from=start.beginning()).map_async(function, emits=OUT, **options)
    given.append_to(out)
    given.aggregate(counted["id"], agg.count())
    return module


def read(driver):
    """What came out."""
    out = driver.depot("out")
    return out.read(0, 0, out.end_offsets()[0]).to_pylist()


def test_rows_keep_their_order_and_calls_their_number(state):
    """The slowest first: they overlap, no more of them than was said."""
    with TopologyTestDriver(module_of(at_once=3), engine="inline") as driver:
        driver.depot("rows").append([{"id": n, "wait": (9 - n) % 4} for n in range(9)])
        driver.run_until_idle()
        found = read(driver)
        assert [(row["id"], row["twice"]) for row in found] == [(n, 2 * n) for n in range(9)]
        assert (state["most"], state["now"]) == (3, 0)
        assert driver.pstate("counted").get() == dict.fromkeys(range(9), 1)


def test_a_repeated_attempt_calls_again_and_counts_once(state):
    """To the outside at least once; what the microbatch commits exactly once."""
    with TopologyTestDriver(module_of(), engine="inline") as driver:
        driver.depot("rows").append([{"id": n, "wait": 0} for n in range(4)])
        driver.fail_next_attempt(after_work=True)
        driver.run_until_idle()
        assert driver.pstate("counted").get() == dict.fromkeys(range(4), 1)
        assert len(read(driver)) == 4
        assert state["calls"] % 4 == 0
        assert state["calls"] > 4


def test_what_a_call_raises_is_a_row_s_error(state):
    """With the row and its record; no further rows are asked."""
    with TopologyTestDriver(module_of(at_once=2), engine="inline") as driver:
        ids = [1, 13, *range(20, 60)]
        driver.depot("rows").append([{"id": n, "wait": 1} for n in ids])
        said = "ValueError in a function of map_async: unlucky"
        with pytest.raises(TopologyFailedError, match=said) as caught:
            driver.run_until_idle()
        assert "id=13" in str(caught.value)
        assert state["calls"] < len(ids), "two attempts, a few rows each"


def test_rows_on_which_it_raises_are_set_aside():
    """As those of map: a dead letter with the record's place."""
    with TopologyTestDriver(module_of(dead_letter=True), engine="inline") as driver:
        driver.depot("rows").append([{"id": n, "wait": 0} for n in (12, 13, 14)])
        driver.run_until_idle()
        assert [row["id"] for row in read(driver)] == [12, 14]
        (dead,) = [
            each
            for number, end in enumerate(driver.depot("rejected").end_offsets())
            for each in driver.depot("rejected").read(number, 0, end).to_pylist()
        ]
        assert (dead["operator"], dead["record_offset"]) == ("map_async", 1)
        assert "unlucky" in dead["error"]


async def forever(row):
    """Never answers."""
    await asyncio.Event().wait()
    return {"id": row.id}


def plain(row):
    """No coroutine."""
    return {"id": row.id}


async def nothing(_row):
    """No row."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (forever, r"took longer than 0\.01 s"),
        (plain, "gave a dict, which cannot be awaited"),
        (nothing, "the function of map_async returned None"),
    ],
)
def test_answers_that_do_not_come(function, said):
    """Each with what to do."""
    module = module_of(function, timeout="10 milliseconds")
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"id": 1, "wait": 0}])
        with pytest.raises(TopologyFailedError, match=said):
            driver.run_until_idle()


def test_it_may_be_called_where_a_loop_runs():
    """The calls have a loop of their own, in a thread of their own."""

    async def driven():
        with TopologyTestDriver(module_of(), engine="inline") as driver:
            driver.depot("rows").append([{"id": 1, "wait": 0}])
            driver.run_until_idle()
            return len(read(driver))

    assert asyncio.run(driven()) == 1


def test_mistakes():
    """Where they are declared."""
    module = atoll.Module("asking")
    rows = module.microbatch("mb").source(module.depot("rows", ROW))
    with refused("at_once=0 cannot be"):
        rows.map_async(double, emits=OUT, at_once=0)
    with refused("the timeout of map_async"):
        rows.map_async(double, emits=OUT, timeout="soon")
    with refused("is no step of a query", "map(function)"):
        module.query("asked", id=int, wait=int).map_async(double, emits=OUT)
