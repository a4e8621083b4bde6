"""What a join keeps, over updates, rollbacks, lost folders and restarts."""

from __future__ import annotations

import shutil

import pytest

import atoll
from atoll import Map, agg, start
from atoll.errors import AtollError
from atoll.testing import TopologyTestDriver

BID = "auction long, price long"
AUCTION = "id long, category string"


def house(*, unique="right", times=1, kept=AUCTION):
    """The sum of ``price * times`` by category."""
    module = atoll.Module("house")
    bids = module.depot("bids", BID, partition_by="auction", partitions=2)
    auctions = module.depot("auctions", AUCTION, partition_by="id", partitions=2)
    options = {
        "pstate.history.seconds": 0,
        "pstate.checkpoint.interval.commits": 2,
        "pstate.history.microbatches": 5,
    }
    mb = module.microbatch("mb", vnode_count=4, options=options)
    sums = mb.pstate("sums", Map(str, int))
    priced = mb.source(bids, start_from=start.beginning()).map(
        lambda row: {"auction": row.auction, "price": row.price * times}, emits=BID
    )
    known = mb.source(auctions, start_from=start.beginning()).map(
        lambda row: {name: getattr(row, name, 0) for name in kept.replace(",", "").split()[::2]},
        emits=kept,
    )
    joined = priced.incremental_join(known, on="left.auction = right.id", unique=unique)
    joined.aggregate(sums["category"], agg.sum("price"))
    return module


def bid(driver, *auctions):
    """Bids of 10."""
    driver.depot("bids").append([{"auction": each, "price": 10} for each in auctions])
    driver.run_until_idle()


def opened(driver, *auctions):
    """Auctions of books."""
    driver.depot("auctions").append([{"id": each, "category": "books"} for each in auctions])
    driver.run_until_idle()


def test_an_update_keeps_what_waits():
    """A row that waited came before the update; new steps apply to what comes after."""
    with TopologyTestDriver(house(), engine="inline") as driver:
        bid(driver, 1, 2)
        opened(driver, 3)
        driver.update(house(times=7))
        opened(driver, 1)
        assert driver.pstate("sums").get() == {"books": 10}
        bid(driver, 1, 3)
        assert driver.pstate("sums").get() == {"books": 150}


@pytest.mark.parametrize(
    "other",
    [
        {"unique": None},
        {"kept": "id long, category string, seller long"},
    ],
)
def test_an_update_that_would_read_it_wrongly_is_refused(other):
    """Other columns, or another unique side: the state has another schema."""
    with TopologyTestDriver(house(), engine="inline") as driver:
        bid(driver, 1)
        with pytest.raises(AtollError, match=r"incremental_join of .* is changed in meaning"):
            driver.update(house(**other))
        opened(driver, 1)
        assert driver.pstate("sums").get() == {"books": 10}


@pytest.mark.parametrize("unique", ["right", None])
def test_a_rollback_brings_back_what_waited(unique):
    """Pairs that were made come again, from the same kept rows."""
    with TopologyTestDriver(house(unique=unique), engine="inline") as driver:
        bid(driver, 1, 1)
        before = driver.status()["committed"]
        opened(driver, 1)
        bid(driver, 1)
        assert driver.pstate("sums").get() == {"books": 30}
        driver.topology("mb").rollback(to_microbatch=before)
        assert driver.pstate("sums").get() in ({}, None)
        driver.topology("mb").resume()
        driver.run_until_idle()
        assert driver.pstate("sums").get() == {"books": 30}


@pytest.mark.parametrize("unique", ["right", "left", None])
def test_local_state_may_vanish(unique, tmp_path):
    """It is rebuilt from checkpoints and logs."""
    with TopologyTestDriver(house(unique=unique), root=tmp_path, engine="inline") as driver:
        total = 0
        for number in range(6):
            bid(driver, number, number + 1)
            opened(driver, number)
            driver.restart()
            (state,) = [each for each in tmp_path.rglob("state") if each.is_dir()]
            shutil.rmtree(state)
        total = {"right": 110, "left": 60, None: 110}[unique]
        assert driver.pstate("sums").get() == {"books": total}
