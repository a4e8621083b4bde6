"""Look-ups in what another topology of the module writes: as of the commit that the plan names."""

from __future__ import annotations

import random

import pytest

import atoll
from atoll import Map, agg, start
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
TIDY = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 5}


def by_length(item):
    """A vnode of one's own choice."""
    return len(item)


def shop(*, vnodes=(8, 4), doubled=False):
    """``keep`` keeps prices and names; ``till`` joins its sales with both, and is read by keep."""
    module = atoll.Module("shop")
    priced = module.depot("priced", "item string, price long", partition_by="item")
    sales = module.depot("sales", "n long, item string", partition_by="item", partitions=2)
    till = module.microbatch("till", vnode_count=vnodes[1])
    sold = till.pstate("sold", Map(int, int))
    known = till.pstate("known", Map(int, int))
    keep = module.microbatch("keep", vnode_count=vnodes[0], options=TIDY)
    prices = keep.pstate("prices", Map(str, int), partition_by=by_length)
    changes = keep.pstate("changes", int, initial=0)
    seen = keep.pstate("seen", Map(str, int))
    if doubled:
        prices.migrated("doubled", lambda value: 2 * value)
    rows = keep.source(priced, start_from=FIRST)
    rows.aggregate(prices["item"], agg.last("price"))
    rows.aggregate(changes, agg.count())
    rows.lookup(sold["1"], "first").aggregate(seen["item"], agg.last("first"))
    bought = till.source(sales, start_from=FIRST).join(prices["item"], column="price", how="left")
    bought.where("price IS NOT NULL").aggregate(sold["n"], agg.last("price"))
    bought.lookup(changes, "changes").aggregate(known["n"], agg.last("changes"))
    return module


def price(driver, **prices):
    """Set prices in one microbatch of ``keep``."""
    driver.depot("priced").append([{"item": i, "price": p} for i, p in prices.items()])
    driver.microbatch("keep")


@pytest.mark.parametrize("seed", range(2))
def test_every_attempt_reads_what_was_when_it_was_planned(tmp_path, seed):
    """Random cuts, failed attempts, reschedules of either side and restarts in between."""
    chance = random.Random(seed)
    items = ["a", "b", "cc", "dd", "eee"]
    known, changes, number = {}, 0, 0
    sold, told = {}, {}
    module = shop(vnodes=(chance.choice([1, 3, 16]), chance.choice([1, 2, 32])))
    with TopologyTestDriver(module, root=tmp_path, engine="inline", parallelism=3) as driver:

        def reprice():
            nonlocal changes
            item = chance.choice(items)
            known[item] = chance.randrange(1_000)
            changes += 1
            price(driver, **{item: known[item]})

        for _ in range(3):
            reprice()
            for item in (chance.choice([*items, "never"]) for _ in range(5)):
                driver.depot("sales").append([{"n": number, "item": item}])
                told[number] = changes
                if item in known:
                    sold[number] = known[item]
                number += 1
            assert driver.step("till") == "prime"
            for what in chance.sample(["fail", "move", "restart", "move till"], 3):
                reprice()
                match what:
                    case "fail":
                        driver.fail_next_attempt("till", after_work=True)
                        assert driver.step("till") == "failed"
                    case "restart":
                        driver.restart()
                    case "move":
                        driver.app.cluster.set_parallelism("keep", chance.choice(["1", "2"]))
            driver.run_until_idle()
        assert driver.pstate("sold").get() == sold
        assert driver.pstate("known").get() == told
    assert check_root(tmp_path).findings == []


def test_values_are_those_of_the_present_schema():
    """A migration of what another topology writes is seen at once."""
    with TopologyTestDriver(shop(), engine="inline") as driver:
        price(driver, a=7)
        driver.update(shop(doubled=True))
        driver.depot("sales").append([{"n": 1, "item": "a"}])
        driver.run_until_idle()
        assert driver.pstate("sold").get() == {1: 14}
        price(driver, b=1)
        assert driver.pstate("seen").get() == {"a": None, "b": 14}


def test_what_is_private_or_of_another_module_is_refused():
    """With what to do."""
    module = atoll.Module("shop")
    rows = module.microbatch("till").source(module.depot("sales", "item string"))
    keep = module.microbatch("keep")
    hidden = keep.pstate("hidden", Map(str, int), private=True)
    twin = atoll.Module("shop").microbatch("keep").pstate("prices", Map(str, int))
    for pstate, words in ((hidden, "private=True"), (twin, "this very module")):
        with pytest.raises(atoll.errors.DeclarationError, match=words):
            rows.lookup(pstate["item"], "price")
