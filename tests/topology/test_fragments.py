"""The fragments of a topology and the edges between them, from its graph alone."""

from __future__ import annotations

import atoll
from atoll import Map, agg
from atoll.topology.fragments import fragment_specs


def _pass(row, seen):
    seen[row.k] = row.v
    yield row.asdict()


def test_a_fragment_s_upstream_is_whose_rows_come_to_it():
    """Through steps that touch no state; a union has several, a depot is read by the source."""
    module = atoll.Module("m")
    one = module.depot("one", "k long, v long")
    two = module.depot("two", "k long, v long")
    mb = module.microbatch("mb", vnode_count=4)
    first, second = mb.pstate("first", Map(int, int)), mb.pstate("second", Map(int, int))
    sums = mb.pstate("sums", Map(int, int))
    emits = "k long, v long"
    a = mb.source(one).process(_pass, key="k", states=[first], emits=emits)
    b = mb.source(two).where("v > 0").process(_pass, key="k", states=[second], emits=emits)
    a.union(b).where("v > 1").union(mb.source(one)).aggregate(sums["k"], agg.sum("v"))
    assert {each.name: each.upstream for each in fragment_specs(mb.graph)} == {
        "source": (),
        "process _pass": ("source",),
        "process _pass #2": ("source",),
        "aggregate sums": ("process _pass", "process _pass #2", "source"),
    }
