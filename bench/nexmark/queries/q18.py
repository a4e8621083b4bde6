"""Last bids: the latest bid of each bidder on each auction, by the time of the bid."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, Struct, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


BID = {"price": int, "channel": str, "url": str}


def build(site: Site) -> None:
    """Declare it."""
    latest = Map(int, Map(int, Struct(date_time=dt.datetime, **BID)))
    last_bids = site.mb.pstate("last_bids", latest)
    site.bids().aggregate(
        last_bids["bidder"]["auction"],
        date_time=agg.max("date_time"),
        **{name: agg.max_by(name, "date_time") for name in BID},
    )


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    bidders = app.pstate("last_bids").get()
    return [(who, what, *row.values()) for who, of in bidders.items() for what, row in of.items()]
