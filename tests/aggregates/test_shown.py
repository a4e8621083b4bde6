"""``columns`` of the aggregates that keep rows: one shape, wherever their lists are seen."""

from __future__ import annotations

import pytest

import atoll
from atoll import List, Map, Struct, agg
from atoll.testing import TopologyTestDriver

SHAPES = {
    "structs": ({"a": "g", "b": "n"}, List(Struct(a=str, b=int)), [{"a": "x", "b": 1}]),
    "columns": (["g", "n"], List(Struct(g=str, n=int)), [{"g": "x", "n": 1}]),
    "tuples": (["g", "n + 0"], List(tuple[str, int]), [("x", 1)]),
    "values": ("n", List(int), [1]),
}
MADE = {
    "limit": lambda columns: agg.limit(10, columns),
    "top_n": lambda columns: agg.top_n(10, by="n", columns=columns),
}
TEXTS = "k string, t string"
ROWS = [("x", 1, "a"), ("x", 3, "b"), ("y", 3, "a"), ("x", 2, "c"), ("z", 3, "a"), ("x", 3, "c")]


def _text(name):
    return lambda row: {"k": row.k, "t": repr(row[name])}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("word", MADE)
def test_the_shape_is_the_same_everywhere(word, shape):
    """In the PState, its changes, rows of a batch, and what a query looks up or makes itself."""
    columns, node, shown = SHAPES[shape]
    made = MADE[word]
    module = atoll.Module("shown")
    rows = module.depot("rows", "k string, g string, n long", partition_by="k")
    mb = module.microbatch("mb", vnode_count=2)
    kept = mb.pstate("kept", Map(str, node))
    told = mb.pstate("told", Map(str, Struct(changed=str, batch=str)))
    source = mb.source(rows)
    changes = source.aggregate(kept["k"], made(columns)).changes()
    changes.map(_text("new"), emits=TEXTS).aggregate(told["k"], changed=agg.last("t"))
    batch = source.group_by("k").agg(x=made(columns))
    batch.map(_text("x"), emits=TEXTS).aggregate(told["k"], batch=agg.last("t"))
    module.query("looked", k=str).lookup(kept["k"], "x").returns("x")
    given = module.query("made", vs=List(Struct(g=str, n=int))).explode("vs", "v")
    parts = given.map(lambda row: dict(row.v), emits="g string, n long")
    parts.agg(x=made(columns)).returns("x")
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "g": "x", "n": 1}])
        driver.run_until_idle()
        assert driver.pstate("kept").get("a") == shown
        assert driver.pstate("told").get("a") == {"changed": repr(shown), "batch": repr(shown)}
        assert driver.app.query("looked", k="a") == shown
        assert driver.app.query("made", vs=[{"g": "x", "n": 1}]) == shown


def test_orders_are_the_same_everywhere():
    """Several terms, one of them falling, in a PState, a batch block and a query."""
    made = {
        "best": lambda: agg.min_by(["g", "n"], ["-n", "g", "-t"]),
        "two": lambda: agg.limit(2, ["t", "n"], order_by=["-n", "-t"]),
    }
    shown = {"best": {"g": "x", "n": 3}, "two": [{"t": "c", "n": 3}, {"t": "b", "n": 3}]}
    node = Struct(best=Struct(g=str, n=int), two=List(Struct(t=str, n=int)))
    module = atoll.Module("ordered")
    rows = module.depot("rows", "k string, g string, n long, t string", partition_by="k")
    mb = module.microbatch("mb", vnode_count=2)
    kept = mb.pstate("best", Map(str, node.get("best")))
    lists = mb.pstate("two", Map(str, node.get("two")))
    told = mb.pstate("told", Map(str, str))
    source = mb.source(rows)
    source.aggregate(kept["k"], made["best"]())
    source.aggregate(lists["k"], made["two"]())
    batch = source.group_by("k").agg(best=made["best"](), two=made["two"]())
    batch.map(lambda row: {"k": row.k, "t": repr((row.best, row.two))}, emits=TEXTS).aggregate(
        told["k"], agg.last("t")
    )
    given = module.query("made", vs=List(Struct(g=str, n=int, t=str))).explode("vs", "v")
    parts = given.map(lambda row: dict(row.v), emits="g string, n long, t string")
    parts.agg(best=made["best"](), two=made["two"]()).returns()
    data = [{"k": "a", "g": g, "n": n, "t": t} for g, n, t in ROWS]
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append(data)
        driver.run_until_idle()
        assert driver.pstate("best").get("a") == shown["best"]
        assert driver.pstate("two").get("a") == shown["two"]
        assert driver.pstate("told").get("a") == repr((shown["best"], shown["two"]))
        vs = [{name: row[name] for name in ("g", "n", "t")} for row in data]
        assert driver.app.query("made", vs=vs) == shown
