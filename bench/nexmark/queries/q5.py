"""Hot items: in every window of ten seconds, each two seconds, the auctions with most bids.

Counts per auction and window change, and each change moves the window's list: the auctions that
share the greatest count. A count only grows, so the list needs no others. When a window has closed,
its counts go, and the list stays.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import List, Map, Struct, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    counts = site.mb.pstate("counts", Map(dt.datetime, Map(int, int)))
    hottest = site.mb.pstate("hottest", Map(dt.datetime, List(Struct(auction=int, num=int))))
    bids = site.bids().with_watermark("date_time", "1 minute")
    windows = bids.window("date_time", "10 seconds", "2 seconds")
    counted = windows.aggregate(counts["window_start"]["auction"], agg.count())
    shown = {"auction": "auction", "num": "new"}
    most = agg.top_n(1, by="new", columns=shown, id="auction", with_ties=True)
    counted.changes().aggregate(hottest["window_start"], most)
    closed = windows.aggregate_windows(bids=agg.count())
    closed.aggregate(counts["window_start"], agg.voided())


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    windows = app.pstate("hottest").get().values()
    return [(row["auction"], row["num"]) for rows in windows for row in rows]
