"""A1: nested counts and one global sum, from two depots in one topology."""

from __future__ import annotations

import atoll
from atoll import Map, agg, path


def make_module(shape):
    """Counts by two keys, and the sum of all numbers."""
    module = atoll.Module("key-pairs")
    pairs = module.depot(
        "pairs", "k string, k2 string", partition_by="k", partitions=shape.partitions
    )
    numbers = module.depot("numbers", "v long", partitions=shape.partitions)
    mb = module.microbatch("mb", vnode_count=shape.vnodes)
    pair_counts = mb.pstate("pair_counts", Map(str, Map(str, int)))
    global_sum = mb.pstate("global_sum", int, initial=0)

    mb.source(pairs).aggregate(pair_counts["k"]["k2"], agg.count())
    mb.source(numbers).aggregate(global_sum, agg.sum("v"))
    return module


def test_key_pairs_and_global_sum(run, shape):
    """Ten records over two depots."""
    run.deploy(shape.example("key_pairs.py") or make_module(shape)).cut()
    assert run.app.pstate("global_sum").get() == 0
    run.app.depot("numbers").append([{"v": 1}, {"v": 3}, {"v": 7}])
    run.disturb()
    pairs = ["ab", "ab", "ac", "xy", "xy", "xy", "xz"]
    run.app.depot("pairs").append([{"k": a, "k2": b} for a, b in pairs])
    run.app.topology("mb").wait_processed(10)

    counts = run.app.pstate("pair_counts")
    assert run.app.pstate("global_sum").get() == 11
    assert counts.select(path.key("a").all()) == [("b", 2), ("c", 1)]
    assert counts.select(path.key("x").all()) == [("y", 3), ("z", 1)]
