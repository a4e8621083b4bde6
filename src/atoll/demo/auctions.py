"""The module of the demonstration: what an auction house wants to know while bids come in.

One topology reads all three depots, so every PState shows the same moment: the same bids are in
the total of an auction, of its bidder and of its category.

``atoll run atoll.demo.auctions:module`` serves it.
"""

from __future__ import annotations

import atoll
from atoll import List, Map, Struct, agg
from atoll.demo.nexmark import AUCTION_DDL, BID_DDL, PERSON_DDL

UNLISTED = 0
"""The category of bids for an auction that is not open yet: references may come early."""

_TOP = 10

module = atoll.Module("auctions")

persons = module.depot("persons", PERSON_DDL, partition_by="id")
auctions = module.depot("auctions", AUCTION_DDL, partition_by="id")
bids = module.depot("bids", BID_DDL, partition_by="auction")

totals = module.microbatch("totals", vnode_count=64)

people_by_state = totals.pstate("people_by_state", Map(str, int))
totals.source(persons).aggregate(people_by_state["state"], agg.count())

catalog = totals.pstate("catalog", Map(int, Struct(item=str, category=int)))
totals.source(auctions).aggregate(
    catalog["id"], item=agg.last("item_name"), category=agg.last("category")
)

# For each auction and each bidder: how many bids, what sum, which was the highest.
_Bids = Struct(bids=int, total=int, highest=int)
bids_by_auction = totals.pstate("bids_by_auction", Map(int, _Bids))
bids_by_bidder = totals.pstate("bids_by_bidder", Map(int, _Bids))
_placed = totals.source(bids)
_count = {"bids": agg.count(), "total": agg.sum("price"), "highest": agg.max("price")}
_of_auction = _placed.aggregate(bids_by_auction["auction"], **_count)
_of_bidder = _placed.aggregate(bids_by_bidder["bidder"], **_count)

# What changed flows on: once per changed auction and microbatch, not once per bid.
_auction_changes = _of_auction.changes()

top_auctions = totals.pstate("top_auctions", List(Struct(auction=int, bids=int, highest=int)))
_auction_changes.aggregate(
    top_auctions,
    agg.top_n(
        _TOP,
        by="new.bids",
        columns={"auction": "auction", "bids": "new.bids", "highest": "new.highest"},
        id="auction",
    ),
)

top_bidders = totals.pstate("top_bidders", List(Struct(bidder=int, bids=int, total=int)))
_of_bidder.changes().aggregate(
    top_bidders,
    agg.top_n(
        _TOP,
        by="new.total",
        columns={"bidder": "bidder", "bids": "new.bids", "total": "new.total"},
        id="bidder",
    ),
)

by_category = totals.pstate("by_category", Map(int, Struct(bids=int, total=int)))
(
    _auction_changes.lookup(catalog["auction"], "listed")
    .select(
        f"coalesce(listed.category, {UNLISTED}) AS category",
        "new.bids - coalesce(old.bids, 0) AS bids",
        "new.total - coalesce(old.total, 0) AS total",
    )
    .aggregate(by_category["category"], bids=agg.sum("bids"), total=agg.sum("total"))
)
