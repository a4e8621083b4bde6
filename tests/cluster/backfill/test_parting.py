"""Which steps fill, which are the topology without them, and what cannot be filled."""

from __future__ import annotations

import re

import pytest

from atoll import Module, agg
from atoll.cluster.backfill.parting import obstacles, parted


class Shop:
    """A topology with what is there, and new PStates."""

    def __init__(self):
        self.module = Module("shop")
        self.sales = self.module.depot(
            "sales", "item long, shop long, at timestamp", partition_by="shop"
        )
        self.visits = self.module.depot("visits", "shop long", partition_by="shop")
        self.out = self.module.depot("out", "item long")
        self.mb = self.module.microbatch("mb", vnode_count=4)
        self.old = self.mb.pstate("old", dict[int, int])
        self.new = self.mb.pstate("new", dict[int, int], backfill=True)
        self.rows = self.mb.source(self.sales).where(lambda row: row.item > 0)
        self.rows.aggregate(self.old["item"], agg.count())

    def against(self, *filled):
        """What keeps them from being filled."""
        starts = {"sales": [0]}
        filled = filled or ("new",)
        return [why for why, _ in obstacles(self.mb.graph, filled, {"old"}, starts)]


def count(row, new):
    """Counts, and passes the row on."""
    new[row.item] = new.get(row.item, 0) + 1
    yield {"item": row.item}


def both(row, old, new):
    """Writes what is there and what is filled."""
    old[row.item] = new[row.item] = 1


def test_a_step_that_keeps_nothing_is_in_both():
    """Each part has the ways to its own state, and no other state."""
    shop = Shop()
    shop.rows.aggregate(shop.new["item"], agg.count())
    rest, fills = parted(shop.mb.graph, ["new"], "_fill-mb-1")
    assert not shop.against()
    assert [each.title for each in rest.operators] == ["source", "where", "aggregate"]
    assert [each.title for each in fills.operators] == ["source", "where", "aggregate"]
    assert (list(rest.pstates), list(fills.pstates)) == (["old"], ["new"])
    assert (rest.topology, fills.topology) == ("mb", "_fill-mb-1")
    assert rest.operators[0] is fills.operators[0]
    assert list(shop.mb.graph.pstates) == ["old", "new"]


def test_hidden_state_goes_with_its_step():
    """What a new step keeps by itself is filled with it, and what watches event time is there."""
    shop = Shop()
    stamped = shop.rows.with_watermark("at", "1 minute")
    stamped.aggregate(shop.new["item"], agg.count_distinct("shop"))
    rest, fills = parted(shop.mb.graph, ["new"], "_fill-mb-1")
    assert not shop.against()
    assert sorted(fills.pstates) == ["_mb-distinct-new", "new"]
    assert [each.title for each in fills.operators].count("with_watermark") == 2
    assert "with_watermark" not in {each.title for each in rest.operators}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            lambda s: s.rows.process(both, key="item", states=[s.old, s.new]),
            "process both at .* also leads to what is there already",
        ),
        (
            lambda s: s.rows.process(
                count, key="item", states=[s.new], emits="item long"
            ).append_to(s.out),
            "process count at .* also leads to what is there already",
        ),
        (
            lambda s: s.rows.lookup(s.old["item"], "seen").aggregate(s.new["item"], agg.count()),
            "reads old, whose past is not kept",
        ),
        (
            lambda s: s.old.changes("key").aggregate(s.new["key"], agg.count()),
            "reads old, whose past is not kept",
        ),
        (
            lambda s: s.mb.source(s.visits).aggregate(s.new["shop"], agg.count()),
            "it reads depot 'visits', which the topology has not read yet",
        ),
        (
            lambda s: s.mb.source(s.module.tick("minute", "1 minute")).aggregate(
                s.new["number"], agg.count()
            ),
            "tick minute has no past",
        ),
    ],
    ids=["both", "appends", "looks up", "changes", "other depot", "tick"],
)
def test_what_cannot_be_filled(step, why):
    """It is said by the step, and where that stands."""
    shop = Shop()
    step(shop)
    assert any(re.search(why, each) for each in shop.against()), shop.against()


def test_a_depot_that_nothing_else_reads_any_more():
    """How far the topology is in it would be forgotten meanwhile."""
    module = Module("shop")
    sales = module.depot("sales", "item long")
    visits = module.depot("visits", "item long")
    mb = module.microbatch("mb", vnode_count=4)
    old = mb.pstate("old", dict[int, int])
    new = mb.pstate("new", dict[int, int], backfill=True)
    mb.source(visits).aggregate(old["item"], agg.count())
    mb.source(sales).aggregate(new["item"], agg.count())
    found = list(obstacles(mb.graph, ["new"], {"old"}, {"sales": [0], "visits": [0]}))
    assert [why for why, _ in found] == [
        "nothing else in the topology reads depot 'sales' any more"
    ]
