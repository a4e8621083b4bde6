"""Calculation: prices in euros, the time of day, and how often a letter is in the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


COLUMNS = {
    "auction": "long",
    "bidder": "long",
    "price": "decimal(23, 3)",
    "bid_time_type": "string",
    "date_time": "timestamp",
    "c_counts": "int",
}


def build(site: Site) -> None:
    """Declare it."""
    out = site.output(", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
    time_type = """CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
        ELSE 'otherTime' END"""
    euros = site.bids().with_columns(
        price="cast(0.908 * price AS decimal(23, 3))",
        bid_time_type=time_type,
        c_counts="length(url) - length(replace(url, 'c', ''))",
    )
    euros.where("price > 1000000 AND price < 50000000").select(*COLUMNS).append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
