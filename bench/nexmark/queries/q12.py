"""Bids by the clock: how many each bidder placed in every ten seconds of *processing* time."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

LENGTH = dt.timedelta(seconds=10)


def build(site: Site) -> None:
    """Declare it."""
    counts = site.mb.pstate("counts", Map(int, Map(dt.datetime, int)))
    bids = site.bids().with_processing_time("seen_at").window("seen_at", LENGTH)
    bids.aggregate(counts["bidder"]["window_start"], agg.count())


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    counts = app.pstate("counts").get()
    return [
        (who, count, start, start + LENGTH)
        for who, windows in counts.items()
        for start, count in windows.items()
    ]
