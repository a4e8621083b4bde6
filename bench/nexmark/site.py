"""The auction site that every query watches: three depots, one topology.

A query asks for what it reads, and only that is declared and sourced::

    def build(site):
        bids = site.bids()
        counts = site.mb.pstate("counts", Map(int, int))
        bids.aggregate(counts["auction"], agg.count())
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import atoll
from atoll.demo.nexmark import AUCTION_DDL, BID_DDL, PERSON_DDL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.module import DepotDeclaration
    from atoll.stream.stream import Stream

__all__ = ["KINDS", "TOPOLOGY", "Site"]

TOPOLOGY = "mb"

KINDS = {
    "person": (PERSON_DDL, "id"),
    "auction": (AUCTION_DDL, "id"),
    "bid": (BID_DDL, "auction"),
}
"""The depots: their columns, and the one that they are partitioned by."""


@dataclass
class Site:
    """A module with one topology, ``mb``, and depots as a query asks for them.

    Attributes:
        name: The module's name, as ``q3``.
        partitions: Of each depot.
        vnode_count: Of the topology.
        options: Of the topology.
    """

    name: str
    partitions: int = 2
    vnode_count: int = 64
    options: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Declare the topology."""
        self.module = atoll.Module(self.name)
        self.mb = self.module.microbatch(
            TOPOLOGY, vnode_count=self.vnode_count, options=dict(self.options)
        )
        self.reads: list[str] = []

    def persons(self) -> Stream:
        """People who register."""
        return self._source("person")

    def auctions(self) -> Stream:
        """Auctions that open."""
        return self._source("auction")

    def bids(self) -> Stream:
        """Bids that are placed."""
        return self._source("bid")

    def output(self, ddl: str) -> DepotDeclaration:
        """The depot ``results``, for queries whose result is a stream of rows that never change."""
        return self.module.depot("results", ddl, partitions=self.partitions)

    def _source(self, kind: str) -> Stream:
        ddl, key = KINDS[kind]
        depot = self.module.depot(kind, ddl, partition_by=key, partitions=self.partitions)
        self.reads.append(kind)
        return self.mb.source(depot, start_from=atoll.start.beginning())
