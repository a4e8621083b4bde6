"""A8: two later blocks read what the first one computed, once."""

from __future__ import annotations

import atoll
from atoll import agg


def both(row):
    """The number and the one after it."""
    return {"v1": row.v, "v2": row.v + 1}


def make_module(shape):
    """Two sums over rows that were computed once."""
    module = atoll.Module("materialized")
    numbers = module.depot("numbers", "v long", partitions=shape.partitions)
    mb = module.microbatch("mb", vnode_count=shape.vnodes)
    p1, p2 = mb.pstate("p1", int, initial=0), mb.pstate("p2", int, initial=0)

    nums = mb.source(numbers).map(both, emits="v1 long, v2 long").materialize()
    nums.agg(v=agg.sum("v1")).aggregate(p1, agg.sum("v"))
    nums.agg(v=agg.sum("v2")).aggregate(p2, agg.sum("v"))
    return module


def test_materialize(run, shape):
    """The sums of 1 to 3 and of 2 to 4."""
    run.deploy(make_module(shape)).cut()
    run.app.depot("numbers").append([{"v": 1}, {"v": 2}])
    run.disturb()
    run.app.depot("numbers").append([{"v": 3}])
    run.app.topology("mb").wait_processed(3)
    assert (run.app.pstate("p1").get(), run.app.pstate("p2").get()) == (6, 9)
