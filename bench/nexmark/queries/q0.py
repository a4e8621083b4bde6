"""Pass-through: every bid, as it is; what moving records costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    out = site.output("auction long, bidder long, price long, date_time timestamp")
    site.bids().select("auction", "bidder", "price", "date_time").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
