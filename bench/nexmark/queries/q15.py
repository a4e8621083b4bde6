"""Bidding by day: bids, bidders and auctions, of all prices and by rank of the price."""

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
    days = site.mb.pstate(
        "days", Map(dt.date, Struct(**rank_fields("bids", "bidders", "auctions")))
    )
    counted = by_rank(
        bids=agg.count(),
        bidders=agg.count_distinct("bidder"),
        auctions=agg.count_distinct("auction"),
    )
    site.bids().with_columns(day="to_date(date_time)").aggregate(days["day"], **counted)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return [(day, *row.values()) for day, row in app.pstate("days").get().items()]
