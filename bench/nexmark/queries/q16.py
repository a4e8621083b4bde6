"""Bidding by channel and day: as q15, and when in the day the last bid came."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, Struct, agg
from nexmark.queries.ranks import by_rank, rank_fields

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    fields = rank_fields("bids", "bidders", "auctions")
    channels = site.mb.pstate("channels", Map(str, Map(dt.date, Struct(minute=str, **fields))))
    counted = by_rank(
        bids=agg.count(),
        bidders=agg.count_distinct("bidder"),
        auctions=agg.count_distinct("auction"),
    )
    site.bids().with_columns(day="to_date(date_time)").aggregate(
        channels["channel"]["day"], minute=agg.max("date_format(date_time, 'HH:mm')"), **counted
    )


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    channels = app.pstate("channels").get()
    return [(name, day, *row.values()) for name, of in channels.items() for day, row in of.items()]
