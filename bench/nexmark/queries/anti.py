"""Sellers without a sale, and how many auctions each has opened: an anti join of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll import Map, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    opened = site.mb.pstate("opened", Map(int, int))
    unsold = site.mb.pstate("unsold", Map(int, int))
    auctions = site.auctions().select("id", "seller")
    bids = site.bids().select("auction AS id")
    sold = bids.incremental_join(auctions, on="id", unique="right").select("seller")
    sellers = auctions.aggregate(opened["seller"], agg.count()).changes()
    without = sellers.incremental_join(sold, on="seller", how="anti")
    without.where("new IS NULL").aggregate(unsold["seller"], agg.voided())
    without.where("new IS NOT NULL").aggregate(unsold["seller"], agg.last("new.opened"))


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return list(app.pstate("unsold").get().items())
