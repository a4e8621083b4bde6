"""Joins that change, where Spark runs the column steps before and behind them."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg, start
from atoll.testing import TopologyTestDriver

pytestmark = pytest.mark.slow


def test_changes_go_through_column_steps_of_sparks():
    """Structs of old and new rows, before an aggregate and as a side of another join."""
    module = atoll.Module("house")
    auctions = module.depot("auctions", "id long, seller string", partition_by="id")
    bids = module.depot("bids", "auction long, price long", partition_by="auction")
    mb = module.microbatch("mb", vnode_count=4, columns="spark")
    highest = mb.pstate("highest", Map(int, int))
    totals = mb.pstate("totals", Map(str, int))
    unsold = mb.pstate("unsold", Map(int, int))
    priced = mb.source(bids, start_from=start.beginning()).where("price > 0")
    best = priced.aggregate(highest["auction"], agg.max("price")).changes()
    opened = mb.source(auctions, start_from=start.beginning()).select("id", "seller")
    found = opened.incremental_join(best, on="left.id = right.auction", how="left")
    sums = found.select(
        "coalesce(new.seller, old.seller) AS seller",
        "coalesce(new.highest, 0) - coalesce(old.highest, 0) AS more",
    )
    sums.aggregate(totals["seller"], agg.sum("more"))
    without = opened.incremental_join(best, on="left.id = right.auction", how="anti")
    without.aggregate(unsold["id"], agg.sum("if(new IS NULL, 0, 1) - if(old IS NULL, 0, 1)"))
    with TopologyTestDriver(module, engine="spark") as driver:
        rows = [{"id": 1, "seller": "ann"}, {"id": 2, "seller": "ann"}, {"id": 3, "seller": "bob"}]
        driver.depot("auctions").append(rows)
        driver.run_until_idle()
        for auction, price in ((1, 5), (2, 7), (1, 9), (3, 0)):
            driver.depot("bids").append([{"auction": auction, "price": price}])
            driver.fail_next_attempt(after_work=True)
            driver.run_until_idle()
        assert driver.pstate("totals").get() == {"ann": 16, "bob": 0}
        assert driver.pstate("unsold").get() == {1: 0, 2: 0, 3: 1}
