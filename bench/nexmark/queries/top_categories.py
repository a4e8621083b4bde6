"""The three categories with the highest average of final prices: an order that falls as well.

No query of Nexmark's own. A new auction's first bid pulls its category's average down, the winning
ones pull it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll import Map, Struct, agg, path
from nexmark.joined import bids_on_auctions

if TYPE_CHECKING:
    from atoll import Row
    from atoll.cluster.app import App
    from nexmark.site import Site


def weigh(row: Row, means: Any) -> None:
    """Move a category's average by what became of one of its auctions."""
    known = means.get(row.category) or {"total": 0, "auctions": 0}
    total, auctions = known["total"] + row.new - (row.old or 0), known["auctions"]
    auctions += row.old is None
    means[row.category] = {"total": total, "auctions": auctions, "mean": total / auctions}


def build(site: Site) -> None:
    """Declare it."""
    finals = site.mb.pstate("finals", Map(int, Map(int, int)))
    mean = Struct(total=int, auctions=int, mean=float)
    means = site.mb.pstate("means", Map(int, mean, ranked="-mean"))
    bids = bids_on_auctions(site, ["price"], ["category"])
    changes = bids.aggregate(finals["category"]["id"], agg.max("price")).changes()
    changes.process(weigh, key="category", states=[means])


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    best = app.pstate("means").select(path.top(3))
    return [(category, each["mean"]) for category, each in best]
