"""Monitoring new users: who opened an auction in the ten seconds in which they registered."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import Map, Set, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

WINDOW = "10 seconds"


def build(site: Site) -> None:
    """Declare it."""
    active = site.mb.pstate("active", Map(int, Map(str, Set(dt.datetime))))
    auctions = site.auctions().window("date_time", WINDOW)
    opened = auctions.select("seller", "window_start AS opened")
    persons = site.persons().window("date_time", WINDOW)
    registered = persons.select("id AS seller", "name", "window_start AS starttime")
    sellers = opened.incremental_join(registered, on="seller", unique="right")
    new = sellers.where("opened = starttime")
    new.aggregate(active["seller"]["name"], agg.collect_set("starttime"))


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    persons = app.pstate("active").get()
    return [
        (who, name, at) for who, of in persons.items() for name, ats in of.items() for at in ats
    ]
