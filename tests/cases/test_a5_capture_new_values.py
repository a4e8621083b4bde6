"""A5: after a microbatch, each changed combination of keys once, with its final values."""

from __future__ import annotations

import atoll
from atoll import List, Map, Struct, agg

SEEN = "entry struct<k1: string, k2: string, count: long, total: long>"


def seen_of(row):
    """What a changed combination has become, as one value."""
    return {"entry": {"k1": row.k1, "k2": row.k2, **row.new}}


def make_module(shape):
    """Counts and totals by two keys, and a list of everything that a microbatch made of them."""
    module = atoll.Module("captured")
    rows = module.depot("rows", "k1 string, k2 string, v long", partitions=shape.partitions)
    mb = module.microbatch("mb", vnode_count=shape.vnodes)
    stats = mb.pstate("p", Map(str, Map(str, Struct(count=int, total=int))))
    seen = mb.pstate("seen", List(Struct(k1=str, k2=str, count=int, total=int)))

    folded = mb.source(rows).aggregate(stats["k1"]["k2"], count=agg.count(), total=agg.sum("v"))
    folded.changes().map(seen_of, emits=SEEN).aggregate(seen, agg.collect_list("entry"))
    return module


def _one_microbatch(run, rows, total):
    run.app.topology("mb").pause()
    for each in rows:
        run.app.depot("rows").append(dict(zip(("k1", "k2", "v"), each, strict=True)))
    run.app.topology("mb").resume()
    run.app.topology("mb").wait_processed(total)


def _seen(run):
    return [tuple(each.values()) for each in run.app.pstate("seen").get() or []]


def test_capture_new_values(run, shape):
    """Twice, the second time also for a combination of the first."""
    run.deploy(make_module(shape))
    _one_microbatch(run, [("a", "b", 3), ("a", "c", 2), ("d", "b", 9), ("a", "b", 4)], 4)
    first = _seen(run)
    assert sorted(first) == [("a", "b", 2, 7), ("a", "c", 1, 2), ("d", "b", 1, 9)]

    run.disturb()
    _one_microbatch(run, [("a", "b", 1), ("f", "g", 11)], 6)
    both = _seen(run)
    assert both[:3] == first
    assert sorted(both[3:]) == [("a", "b", 3, 8), ("f", "g", 1, 11)]
