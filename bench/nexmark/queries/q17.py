"""Auctions by day: how many bids of each rank, and the prices in short."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, Struct, agg
from nexmark.queries.ranks import by_rank, rank_fields

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


PRICES = {"min_price": int, "max_price": int, "avg_price": float, "sum_price": int}


def build(site: Site) -> None:
    """Declare it."""
    fields = {**rank_fields("bids"), **PRICES}
    auctions = site.mb.pstate("auctions", Map(int, Map(dt.date, Struct(**fields))))
    site.bids().with_columns(day="to_date(date_time)").aggregate(
        auctions["auction"]["day"],
        **by_rank(bids=agg.count()),
        min_price=agg.min("price"),
        max_price=agg.max("price"),
        avg_price=agg.avg("price"),
        sum_price=agg.sum("price"),
    )


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    auctions = app.pstate("auctions").get()
    return [
        (auction, day, *row.values()) for auction, of in auctions.items() for day, row in of.items()
    ]
