"""Sessions of bidders: how many bids each placed before a pause of ten seconds, and when."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    by_times = Map(dt.datetime, Map(dt.datetime, int))
    sessions = site.mb.pstate("sessions", Map(int, by_times))
    bids = site.bids().session_window("date_time", "10 seconds")
    bids.aggregate(sessions["bidder"]["window_start"]["window_end"], agg.count())


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return [
        (bidder, count, start, end)
        for bidder, sessions in app.pstate("sessions").get().items()
        for start, ends in sessions.items()
        for end, count in ends.items()
    ]
