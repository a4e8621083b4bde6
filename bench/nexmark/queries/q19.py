"""Top ten: the highest bids on each auction, of equal ones the earlier."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import List, Map, Struct, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


SHOWN = {"price": int, "date_time": dt.datetime, "bidder": int}
"""Equal prices go by what comes after them."""


def build(site: Site) -> None:
    """Declare it."""
    top = site.mb.pstate("top", Map(int, List(Struct(**SHOWN))))
    ten = agg.top_n(10, by="price", columns={name: name for name in SHOWN})
    site.bids().aggregate(top["auction"], ten)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    auctions = app.pstate("top").get()
    return [
        (auction, rank, *row.values())
        for auction, rows in auctions.items()
        for rank, row in enumerate(rows, start=1)
    ]
