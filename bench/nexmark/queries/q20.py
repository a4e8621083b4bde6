"""Expand bids: each bid on an auction of category 10, with the auction's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.joined import AUCTION, BID
from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

SHOWN = (
    "auction long, bidder long, price long, channel string, url string, bid_time timestamp, "
    "item_name string, description string, initial_bid long, reserve long, date_time timestamp, "
    "expires timestamp, seller long, category long"
)


def build(site: Site) -> None:
    """Declare it."""
    out = site.output(SHOWN)
    bids = site.bids().select("auction", *BID, "date_time AS bid_time")
    auctions = site.auctions().select("id AS auction", *AUCTION)
    expanded = bids.incremental_join(auctions, on="auction", unique="right")
    expanded.where("category = 10").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
