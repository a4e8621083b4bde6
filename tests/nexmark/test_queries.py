"""Every query gives what DuckDB finds in the same records, however they came."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

from atoll.ddl import parse_ddl
from atoll.demo.nexmark import BID_DDL
from atoll.testing import TopologyTestDriver
from nexmark import queries, verify
from nexmark.checking import differences, expected, run
from nexmark.site import Site

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", queries.NAMES)
def test_equal_to_sql(name):
    """Random cuts, partitions, vnodes and actors; a failed attempt, and a reschedule."""
    seed = queries.NAMES.index(name)
    assert verify.check(name, 2_500, seed, 4) == []


def bids(dice, count):
    """Bids with few prices, few auctions and times on the borders of windows: full of ties."""
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        {
            "auction": dice.randint(1, 4),
            "bidder": dice.randint(1, 3),
            "price": dice.choice([100, 200, 2_000_000]),
            "channel": dice.choice(["Apple", "BAIDU", "channel-7", None]),
            "url": dice.choice(["https://x.y/a/b/c?channel_id=12&q=1", "https://x.y/a", None]),
            "date_time": begin + dt.timedelta(seconds=dice.randrange(60)),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=parse_ddl(BID_DDL))


@pytest.mark.parametrize("name", ["q5", "q7", "q11", "q15", "q19", "q21"])
def test_ties_and_borders(name):
    """Where rows are equal in what orders them, on either side of a border, or lack something."""
    dice = random.Random(name)
    for seed in range(1 if name in {"q15", "q21"} else 4):  # those run on Spark
        feed = [{"bid": bids(dice, dice.randint(1, 20))} for _ in range(4)]
        found, records = run(name, feed, seed)
        assert differences(found, expected(name, records)) == []


def test_counts_of_closed_windows_are_gone():
    """What q5 keeps does not grow with the time that it runs: a minute of counts, all lists."""
    site = Site("q5", vnode_count=8)
    queries.load("q5").build(site)
    with TopologyTestDriver(site.module) as driver:
        for minute in range(5):
            at = dt.datetime(2026, 1, 1, 0, minute, tzinfo=dt.UTC)
            row = {**bids(random.Random(minute), 1).to_pylist()[0], "date_time": at}
            driver.depot("bid").append([row])
            driver.run_until_idle()
        assert len(driver.pstate("hottest").get()) == 5 * 5
        counted = driver.pstate("counts").get()
    assert len(counted) == 2 * 5
    assert min(counted) == at - dt.timedelta(minutes=1, seconds=8)
