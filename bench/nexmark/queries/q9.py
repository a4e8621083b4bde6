"""Winning bids: for each auction the highest bid while it was open, of equal ones the earliest.

``top_n`` ranks bids of one price by what it shows, so the time of the bid stands first there.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from atoll import List, Map, Struct, agg
from nexmark.joined import AUCTION, BID, bids_on_auctions

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

SHOWN = {"bid_time": dt.datetime, **BID, **AUCTION}


def build(site: Site) -> None:
    """Declare it."""
    winning = site.mb.pstate("winning", Map(int, List(Struct(**SHOWN))))
    bids = bids_on_auctions(site, list(BID), list(AUCTION))
    columns = {name: name for name in SHOWN}
    bids.aggregate(winning["id"], agg.top_n(1, by="price", columns=columns))


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    winning = app.pstate("winning").get()
    return [(auction, *best.values()) for auction, (best,) in winning.items()]
