"""Average price for a category: of the highest bids that its auctions had while they were open.

A higher bid changes a highest price, and the change moves the category's total by the difference.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from atoll import Map, Struct, agg
from nexmark.joined import bids_on_auctions

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    finals = site.mb.pstate("finals", Map(int, Map(int, int)))
    sums = site.mb.pstate("sums", Map(int, Struct(total=int, auctions=int)))
    bids = bids_on_auctions(site, ["price"], ["category"])
    finals_now = bids.aggregate(finals["category"]["id"], agg.max("price"))
    finals_now.changes().aggregate(
        sums["category"],
        total=agg.sum("new - coalesce(old, 0)"),
        auctions=agg.count().where("old IS NULL"),
    )


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    sums = app.pstate("sums").get()
    return [(name, Decimal(each["total"]) / each["auctions"]) for name, each in sums.items()]
