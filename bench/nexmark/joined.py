"""Bids beside their auctions, as several queries need them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from atoll.stream.stream import Stream
    from nexmark.site import Site

__all__ = ["AUCTION", "BID", "bids_on_auctions"]

BID = {"bidder": int, "price": int, "channel": str, "url": str}
"""What a bid has beside its auction and its time."""

AUCTION = {
    "item_name": str,
    "description": str,
    "initial_bid": int,
    "reserve": int,
    "date_time": dt.datetime,
    "expires": dt.datetime,
    "seller": int,
    "category": int,
}
"""What an auction has beside its id."""


def bids_on_auctions(site: Site, bid: Iterable[str], auction: Iterable[str]) -> Stream:
    """Bids that came while their auction was open, with these columns of both.

    Also ``id`` of the auction with ``date_time`` and ``expires``, and ``bid_time``.
    """
    bids = site.bids().select("auction AS id", "date_time AS bid_time", *bid)
    wanted = dict.fromkeys(["id", "date_time", "expires", *auction])
    auctions = site.auctions().select(*wanted)
    joined = bids.incremental_join(auctions, on="id", unique="right")
    return joined.where("bid_time BETWEEN date_time AND expires")
