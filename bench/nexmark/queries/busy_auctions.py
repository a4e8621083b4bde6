"""Auctions whose count of bids is above the average, the most first.

Which ones moves with every bid: one that none is made on falls below the average that the others
raise. No query of Nexmark's own; RisingWave's q102 is like it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll import Map, Struct, agg, path

if TYPE_CHECKING:
    from atoll import Row
    from atoll.cluster.app import App
    from atoll.path import Path
    from nexmark.site import Site


def above_average(row: Row) -> Path:
    """The auctions of more bids than there are on average."""
    return path.ranked_before(row.bids / row.auctions)


def build(site: Site) -> None:
    """Declare it."""
    bids_of = site.mb.pstate("bids_of", Map(int, int, ranked="-value"))
    total = site.mb.pstate("total", Struct(bids=int, auctions=int))
    changes = site.bids().aggregate(bids_of["auction"], agg.count()).changes()
    auctions = agg.count_if("old IS NULL")
    changes.aggregate(total, bids=agg.sum("new - coalesce(old, 0)"), auctions=auctions)
    known = site.module.query("busy").select_from(total, lambda _: path.stay(), emits=_TOTAL)
    above = known.select_from(bids_of, above_average, emits="auction long, n long")
    above.select("auction", "n").returns(rows="all")


_TOTAL = "bids long, auctions long"


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return [tuple(row.values()) for row in app.query("busy")]
