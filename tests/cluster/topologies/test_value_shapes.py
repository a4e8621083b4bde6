"""Holds that a map is a dict and a tuple a tuple wherever Python sees a column, on both engines.

One module takes the same record through every kind of step that calls a function, and through
what callers read; each says what it saw as text. What functions give goes back into columns.
"""

from __future__ import annotations

import json

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg
from atoll.errors import AtollError, DeclarationError
from atoll.testing import TopologyTestDriver

COLUMNS = """k string, m map<string, map<string, long>>, ms array<map<string, long>>,
    s struct<a: map<string, long>, n: long>, t struct<f0: long, f1: string>,
    ts map<string, array<struct<f0: long, f1: string>>>"""
VALUES = {
    "m": {"x": {"y": 1}, "z": {}},
    "ms": [{"p": 1}, {}],
    "s": {"a": {"q": 2}, "n": None},
    "t": (5, "five"),
    "ts": {"u": [(6, "six"), (7, None)]},
}
SEEN = repr(VALUES)
TEXTS = "k string, text string"


def text_of(row):
    """What a function saw, as text."""
    values = row.asdict()
    return repr({name: values[name] for name in VALUES})


def seen(row):
    """Says what it saw."""
    return {"k": row.k, "text": text_of(row)}


def seen_many(row):
    """As :func:`seen`, and gives it all back."""
    yield {**row.asdict(), "text": text_of(row)}


def reject(row):
    """Takes no row."""
    raise ValueError(text_of(row))


def changed_seen(row, texts):
    """Says what changed."""
    texts[row.k] = repr((row.old, row.new, row.looked))


def shapes():
    """The module."""
    module = atoll.Module("shapes")
    depot = module.depot(
        "depot", COLUMNS, partition_by=lambda record, count: record["m"]["x"]["y"] % count
    )
    out = module.depot("out", f"{COLUMNS}, text string", partitions=1)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=2, dead_letter=rejected)
    mapped = mb.pstate("mapped", Map(str, str))
    texts = mb.pstate("texts", Map(str, str))
    value = Struct(
        m=List(Map(str, Map(str, int))),
        t=tuple[int, str],
        ts=List(Map(str, List(tuple[int, str | None]))),
    )
    values = mb.pstate("values", Map(str, value))
    pairs = mb.pstate("pairs", Map(tuple[int, str], int))
    combined = mb.pstate("combined", Map(str, str))
    accumulated = mb.pstate("accumulated", Map(str, str))
    folded = mb.pstate("folded", Map(str, tuple[int, str]))
    looked = mb.pstate("looked", Map(str, str))
    rows = mb.source(depot)
    rows.map(seen, emits=TEXTS).aggregate(mapped["k"], agg.last("text"))
    rows.flat_map(seen_many, emits=f"{COLUMNS}, text string").append_to(out)

    def keep(row, texts, values):
        texts[row.k] = text_of(row)
        values[row.k] = {"m": [row.m], "t": row.t, "ts": [row.ts]}

    rows.process(keep, key="k", states=[texts, values])
    rows.process(lambda row, pairs: pairs.update({row.t: 1}), key="t", states=[pairs])
    rows.map(reject, emits=TEXTS).aggregate(mapped["k"], agg.last("text"))
    rows.aggregate(
        combined["k"], agg.combine("", lambda a, b: a + b, "m", "t", lift=lambda m, t: repr((m, t)))
    )
    rows.aggregate(accumulated["k"], agg.accumulate(lambda c, t: c + repr(t), "t", initial=""))
    rows.aggregate(folded["k"], agg.max("t"))
    folded.changes("k").lookup(folded["k"], "looked").process(
        changed_seen, key="k", states=[looked]
    )
    query = module.query("query", t=tuple[int, str], n=int)
    query.map(
        lambda row: {"text": repr(row.t), "m": {"n": row.n}, "t": (row.n, "n")},
        emits="text string, m map<string, long>, t struct<f0: long, f1: string>",
    ).returns(rows="all")
    return module


@pytest.mark.parametrize("engine", ["inline", "spark"])
def test_a_map_is_a_dict_and_a_tuple_a_tuple(engine):
    """In every function and in every answer."""
    with TopologyTestDriver(shapes(), engine=engine) as driver:
        driver.depot("depot").append([{"k": "a", **VALUES}])
        driver.microbatch()
        assert driver.pstate("mapped").get("a") == SEEN
        assert driver.pstate("texts").get("a") == SEEN
        assert driver.pstate("values").get("a") == {
            "m": [VALUES["m"]],
            "t": VALUES["t"],
            "ts": [VALUES["ts"]],
        }
        assert driver.pstate("pairs").get() == {(5, "five"): 1}
        assert driver.pstate("combined").get("a") == repr((VALUES["m"], VALUES["t"]))
        assert driver.pstate("accumulated").get("a") == repr(VALUES["t"])
        assert driver.pstate("looked").get("a") == repr((None, (5, "five"), (5, "five")))
        depot = driver.depot("out")
        assert atoll.rows(depot.read(0, 0, 1)) == [{"k": "a", **VALUES, "text": SEEN}]
        (letter,) = atoll.rows(driver.depot("rejected").read(0, 0, 1))
        assert letter["error"] == f"ValueError: {SEEN}"
        assert json.loads(letter["row"]) == json.loads(json.dumps({"k": "a", **VALUES}))
        answer = driver.app.query("query", t=(1, "one"), n=3)
        assert answer == [{"text": repr((1, "one")), "m": {"n": 3}, "t": (3, "n")}]


def test_tuples_are_appended_as_tuples_lists_or_objects():
    """As rows, as JSON, and what was read is appended again."""
    module = atoll.Module("again")
    depot = module.depot("depot", "t struct<f0: long, f1: string>", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    count = mb.pstate("count", int, initial=0)
    mb.source(depot).aggregate(count, agg.count())
    with TopologyTestDriver(module, engine="inline") as driver:
        there = driver.depot("depot")
        there.append([{"t": (1, "a")}, {"t": {"f0": 2, "f1": "b"}}, {"t": [3, "c"]}, {"t": None}])
        read = there.read(0, 0, 4)
        rows = [{"t": (1, "a")}, {"t": (2, "b")}, {"t": (3, "c")}, {"t": None}]
        assert atoll.rows(read) == rows
        there.append(rows)
        there.append(read)
        assert atoll.rows(there.read(0, 4, 12)) == rows + rows
        with pytest.raises(AtollError):
            there.append([{"t": (1, "a", 2)}])


def test_a_tuple_as_the_key_of_timers():
    """Rows and timers have the same one."""
    module = atoll.Module("timers")
    depot = module.depot("depot", "t struct<f0: long, f1: string>", partitions=1)
    out = module.depot("out", "text string", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    pairs = mb.pstate("pairs", Map(tuple[int, str], int))

    def remind(row, pairs, timers):
        pairs[row.t] = 1
        timers.at(0)

    def fire(timer, pairs, timers):
        yield {"text": repr((timer.key, pairs[timer.key]))}

    mb.source(depot).process(
        remind, key="t", states=[pairs], on_timer=fire, emits="text string"
    ).append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("depot").append([{"t": (1, "a")}])
        driver.run_until_idle()
        assert atoll.rows(driver.depot("out").read(0, 0, 1)) == [{"text": "((1, 'a'), 1)"}]


def test_sets_are_given_for_arrays():
    """In an order that every attempt repeats."""
    module = atoll.Module("sets")
    depot = module.depot("depot", "k string", partitions=1)
    out = module.depot("out", "tags array<string>, more map<string, array<long>>", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    tags = mb.pstate("tags", Map(str, Set(str)))

    def tag(row, tags):
        tags[row.k] |= {"b", "c", "a"}
        yield {"tags": tags[row.k], "more": {"n": {3, 1, 2}}}

    mb.source(depot).process(
        tag, key="k", states=[tags], emits="tags array<string>, more map<string, array<long>>"
    ).append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("depot").append([{"k": "a"}])
        driver.microbatch()
        assert atoll.rows(driver.depot("out").read(0, 0, 1)) == [
            {"tags": ["a", "b", "c"], "more": {"n": [1, 2, 3]}}
        ]


def test_a_struct_that_a_column_would_show_as_a_tuple():
    """Is refused where it becomes a column."""
    module = atoll.Module("f0")
    depot = module.depot("depot", "k string", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    odd = mb.pstate("odd", Map(str, List(Struct(f0=int, f1=int))))
    plain = mb.pstate("plain", Map(str, str))
    mb.source(depot).lookup(odd["k"], "found").aggregate(plain["k"], agg.last("k"))
    with pytest.raises(DeclarationError, match="is a tuple"):
        TopologyTestDriver(module, engine="inline")
