"""Currency conversion: every bid with its price in euros; an expression per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    out = site.output("auction long, bidder long, price decimal(23, 3), date_time timestamp")
    euros = "cast(0.908 * price AS decimal(23, 3)) AS price"
    site.bids().select("auction", "bidder", euros, "date_time").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
