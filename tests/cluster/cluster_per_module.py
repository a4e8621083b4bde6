"""The modules of ``cluster_per_module.tar.gz``: two, each with workers and revisions of its own.

The archive is a root of the release that kept the cluster per module. Its own code ran :func:`fill`
on a folder, whose ``local/`` was left out of the archive. Worker ``w`` has id 2 and units 3 and 4
in module ``one`` but id 1 and units 2 and 3 in module ``two``, and only ``one`` knows that it is
cordoned; ``more`` has gone. ``one`` was rescheduled by hand.
"""

from __future__ import annotations

from atoll import LocalCluster, Map, Module, agg
from atoll.placement.reschedule.change import UnitChange

RECORDS = 30


def module(name):
    """Counts by key and sums all."""
    made = Module(name)
    numbers = made.depot("numbers", "k long, v long")
    mb = made.microbatch("mb", vnode_count=8)
    counts = mb.pstate("counts", Map(int, int))
    total = mb.pstate("total", int, initial=0)
    mb.source(numbers).aggregate(counts["k"], agg.count())
    mb.source(numbers).aggregate(total, agg.sum("v"))
    return made


def append(app, first, count):
    """So many records from that one on, and wait for them."""
    app.depot("numbers").append([{"k": n % 7, "v": n} for n in range(first, first + count)])
    app.topology("mb").wait_processed(first + count)


def check(app, count):
    """The state is that of so many records."""
    assert app.pstate("total").get() == sum(range(count))
    found = app.pstate("counts").get()
    assert found == {k: len(range(k, count, 7)) for k in range(7) if range(k, count, 7)}


def fill(root):
    """What the archive holds."""
    with LocalCluster(root, engine="inline", parallelism=2) as cluster:
        one = cluster.deploy(module("one"))
        cluster.add_worker("more", 1)
        cluster.add_worker("w", 2)
        cluster.lose_worker("more")
        two = cluster.deploy(module("two"))
        one.cluster.reschedule({2: UnitChange((), (1, 4))}, revision=one.cluster.info().revision)
        w = next(each.id for each in one.cluster.info().workers if each.name == "w")
        one.cluster.cordon([w])
        two.cluster.set_parallelism("mb", "bounded(3)")
        for app in (one, two):
            append(app, 0, RECORDS)
