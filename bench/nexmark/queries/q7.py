"""Highest bid: in every window of ten seconds, the bids at the greatest price."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import List, Map, Struct, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


SHOWN = {"auction": int, "price": int, "bidder": int, "date_time": dt.datetime}


def build(site: Site) -> None:
    """Declare it."""
    highest = site.mb.pstate("highest", Map(dt.datetime, List(Struct(**SHOWN))))
    site.bids().window("date_time", "10 seconds").aggregate(
        highest["window_start"],
        agg.top_n(1, by="price", columns={name: name for name in SHOWN}, with_ties=True),
    )


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    windows = app.pstate("highest").get().values()
    return [tuple(row.values()) for rows in windows for row in rows]
