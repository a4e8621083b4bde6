"""Bids within ten minutes of their auction's opening; older rows are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    out = site.output("id long, seller long, bidder long, price long, date_time timestamp")
    auctions = site.auctions().select("id", "seller", "date_time AS opened")
    bids = site.bids().select("auction AS id", "bidder", "price", "date_time")
    early = auctions.with_watermark("opened", "40 seconds").incremental_join(
        bids.with_watermark("date_time", "40 seconds"),
        on="id",
        within=("0 seconds", "10 minutes"),
        at=("opened", "date_time"),
    )
    early.select("id", "seller", "bidder", "price", "date_time").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
