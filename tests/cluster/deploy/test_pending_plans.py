"""A plan that was made and not committed is followed by whichever version of the module comes."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg, start
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
LITTLE = {"pstate.migration.vnodes.per.microbatch": 1}


def shop(*, reads="ab", tick=False, state="sums", value=int):
    """Sums what some depots hold; counts seconds where it is told to."""
    module = atoll.Module("shop")
    depots = {name: module.depot(name, "k string, v long", partition_by="k") for name in "abc"}
    mb = module.microbatch("mb", vnode_count=4, options=LITTLE)
    total = mb.pstate("total", int, initial=0)
    sums = mb.pstate(state, Map(str, value))
    if value is float:
        sums.migrated("wider", float)
    for name in reads:
        rows = mb.source(depots[name], start_from=FIRST)
        rows.aggregate(total, agg.sum("v"))
        rows.process(keep, key="k", states=[sums])
    if tick:
        seconds = mb.pstate("seconds", int, initial=0)
        mb.source(module.tick("second", "1 second")).aggregate(seconds, agg.count())
    return module


def keep(row, sums):
    """The last value."""
    sums[row.k] = row.v


@pytest.mark.parametrize("tick", [False, True])
@pytest.mark.parametrize("limit", [1_000, 2])
def test_the_version_that_follows_may_read_more(tmp_path, tick, limit):
    """A depot or tick that the plan does not know: nothing of it, and all in the next one.

    So also where the plan is beyond the limits of that version, and is cut smaller.
    """
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        for name, value in (("a", 1), ("b", 10), ("c", 100)):
            driver.depot(name).append([{"k": f"k{n}", "v": value} for n in range(8)])
        assert driver.step() == "prime"
        wider = shop(reads="abc", tick=tick)
        wider.topologies["mb"].options["depot.microbatch.max.records"] = limit
        driver.update(wider)
        assert "c" in driver.microbatch().ranges
        assert driver.pstate("total").get() % 1_000 < 100, "nothing of the third depot"
        driver.run_until_idle()
        assert driver.pstate("total").get() == 888
        if tick:
            driver.advance(1)
            driver.run_until_idle()
            assert driver.pstate("seconds").get() == 1
    assert check_root(tmp_path).is_sound, list(check_root(tmp_path).damages())


def test_the_version_that_follows_may_read_less_and_keep_other_state(tmp_path):
    """What the plan says of a PState that is gone, as the vnodes to rewrite, is nobody's."""
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        driver.depot("a").append([{"k": f"k{n}", "v": 1} for n in range(8)])
        driver.run_until_idle()
        driver.update(shop(value=float))
        driver.depot("b").append([{"k": f"k{n}", "v": 10} for n in range(8)])
        assert driver.step() == "prime"
        driver.update(shop(reads="a", state="others"), remove=["pstate:sums"])
        driver.depot("a").append([{"k": "a", "v": 1}])
        driver.run_until_idle()
        assert driver.pstate("total").get() == 9
        assert driver.pstate("others").get() == {"a": 1}
    assert check_root(tmp_path).is_sound, list(check_root(tmp_path).damages())
