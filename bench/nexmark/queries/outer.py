"""Auctions with their highest bid, if they have one: an outer join with the changes of a PState."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll import Map, Struct, agg

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site


def build(site: Site) -> None:
    """Declare it."""
    highest = site.mb.pstate("highest", Map(int, int))
    listed = site.mb.pstate("listed", Map(int, Struct(item_name=str, price=int)))
    best = site.bids().aggregate(highest["auction"], agg.max("price")).changes()
    auctions = site.auctions().select("id", "item_name")
    found = auctions.incremental_join(best, on="left.id = right.auction", how="left")
    shown = {"item_name": agg.last("new.item_name"), "price": agg.last("new.highest")}
    found.where("new IS NOT NULL").aggregate(listed["id"], **shown)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    listed = app.pstate("listed").get()
    return [(auction, each["item_name"], each["price"]) for auction, each in listed.items()]
