"""Selection: the bids on some auctions; a condition per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site, chosen: str = "auction % 123 = 0") -> None:
    """Declare it; which auctions depends on the stream's ids."""
    out = site.output("auction long, price long")
    site.bids().where(chosen).select("auction", "price").append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
