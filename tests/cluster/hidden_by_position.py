"""The module of ``hidden_by_position.tar.gz``: every kind of hidden state, distinct counts twice.

The archive is a root on which the release at fd08a5b ran :func:`module` with ``BEFORE`` appended to
``d`` and ``WAITING`` to ``e``, inline and without its local folder; that release named hidden state
by position and kept no signatures.
"""

import atoll
from atoll import Map, agg, start


def remind(row, users, timers):
    """Counts, and asks to be called at a time that is still to come."""
    users[row.k] = users.get(row.k, 0) + 1
    timers.at(20_000 + row.n, "later")


def fire(timer, users, timers):
    """Says that it was called."""
    users[timer.key] = users.get(timer.key, 0) + 1000


def module(order="pa", more=(), without=()):
    """As it was, or with its distinct counts in another order, one more, or no windows."""
    m = atoll.Module("old")
    d = m.depot(
        "d", "k string, a string, b string, n long, at long", partition_by="k", partitions=1
    )
    e = m.depot("e", "k string, x string", partition_by="k", partitions=1)
    mb = m.microbatch("mb", vnode_count=2)
    first = start.beginning()
    rows = mb.source(d, start_from=first)

    def paths():
        rows.aggregate(mb.pstate("paths", Map(str, int))["k"], agg.count_distinct("a"))

    def authors():
        rows.aggregate(mb.pstate("authors", Map(str, int))["k"], agg.count_distinct("b"))

    for each in order:
        {"p": paths, "a": authors}[each]()
    if "x" in more:
        rows.aggregate(mb.pstate("extra", Map(str, int))["k"], agg.count_distinct("a"))
    joined = rows.incremental_join(mb.source(e, start_from=first), on="k")
    joined.aggregate(mb.pstate("pairs", Map(str, int))["k"], agg.count())
    timed = rows.with_watermark("at", "1 second")
    out = m.depot("out", "k string, window_start long, window_end long, n long")
    if "windows" not in without:
        timed.window("at", "10 seconds").aggregate_windows("k", n=agg.count()).append_to(out)
        timed.session_window("at", "5 seconds").aggregate_windows("k", n=agg.sum("n")).append_to(
            out
        )
    rows.aggregate(mb.pstate("best", Map(str, str))["k"], agg.max_by("a", "n"))
    users = mb.pstate("users", Map(str, int))
    timed.process(remind, key="k", states=[users], on_timer=fire, timers="event")
    return m


def record(k, a, b, n, at):
    """A record of ``d``."""
    return {"k": k, "a": a, "b": b, "n": n, "at": at}


WAITING = [{"k": "h", "x": "waits"}]
BEFORE = [
    record("f", "x", "ann", 1, 1_000),
    record("f", "y", "bob", 2, 2_000),
    record("f", "x", "ann", 3, 9_000),
    record("g", "x", "cy", 4, 12_000),
]
