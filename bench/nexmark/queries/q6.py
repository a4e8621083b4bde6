"""Average selling price by seller: over an auction's winning bid and the ten of that seller before.

The winning bids of a seller are kept by time. One that is outbid leaves its place for another, and
with it the averages of those that follow change: nothing is kept of them, each is read from eleven
neighbours. As the published query does, an auction counts from its first bid on, and "ten
preceding" are eleven with the current one; of equal prices the earliest bid wins.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, Struct, agg, path
from nexmark.joined import bids_on_auctions

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

SOLD = Map(int, Struct(price=int, at=dt.datetime), ranked=["at", "key"])


def build(site: Site) -> None:
    """Declare it."""
    sold = site.mb.pstate("sold", Map(int, SOLD))
    bids = bids_on_auctions(site, ["price"], ["seller"])
    bids.aggregate(
        sold["seller"]["id"],
        price=agg.max("price"),
        at=agg.max_by("bid_time", ["price", "-bid_time"]),
    )
    query = site.module.query("average", seller=int, auction=int)
    prices = query.select_from(
        sold, lambda row: path.key(row.seller).around(row.auction, before=10).nth(1), emits=_PRICE
    )
    prices.agg(average=agg.avg("price")).returns("average")


_PRICE = "price long, at timestamp"


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now, seller by seller: what the query ``average`` says of each auction."""
    sold, rows = app.pstate("sold"), []
    for seller in sold.select(path.keys()):
        prices = [each["price"] for _, each in sold.select(path.key(seller).ranked())]
        last = [prices[max(at - 10, 0) : at + 1] for at in range(len(prices))]
        rows += [(seller, sum(each) / len(each)) for each in last]
    return rows
