"""Exact distinct counts: what a set of Python's finds, however the rows came."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict

import pytest

import atoll
from atoll import Map, Set, Struct, agg
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

HEAVY = 0.6
"""How many of the rows have one key: the hot one."""


def rows_of(dice, count):
    """Some rows; keys, values and conditions may be missing."""
    return [
        {
            "k": "hot" if dice.random() < HEAVY else dice.choice(["a", "b", "c"]),
            "k2": dice.choice([None, 1, 2]),
            "v": dice.choice([None, *range(25)]),
            "name": dice.choice([None, "", "x", "y" * 600, "z"]),
            "at": dt.datetime(2026, 1, dice.randint(1, 9), tzinfo=dt.UTC),
        }
        for _ in range(count)
    ]


def build(vnodes, partitions):
    """Counts of several columns into one struct, into a map's values, and into a global."""
    module = atoll.Module("counts")
    rows = module.depot(
        "rows",
        "k string, k2 long, v long, name string, at timestamp",
        partition_by="k",
        partitions=partitions,
    )
    mb = module.microbatch("mb", vnode_count=vnodes)
    by_key = mb.pstate("by_key", Map(str, Struct(n=int, vs=int, names=int, times=int)))
    nested = mb.pstate("nested", Map(str, Map(int, int)))
    all_of_them = mb.pstate("all", Struct(vs=int, n=int))
    changed = mb.pstate("changed", Map(str, Struct(vs=int, times=int)))
    last = mb.pstate("last", Map(str, int))
    source = mb.source(rows)
    source.aggregate(
        by_key["k"],
        names=agg.count_distinct("name"),
        n=agg.count(),
        vs=agg.count_distinct("v"),
        times=agg.count_distinct("at"),
    )
    source.aggregate(nested["k"], agg.map("k2", agg.count_distinct("v")))
    source.aggregate(all_of_them, vs=agg.count_distinct("v"), n=agg.count("v"))
    counts = source.aggregate(
        changed["k"], vs=agg.count_distinct("v"), times=agg.count_distinct("at")
    )
    counts.changes().map(
        lambda row: {"k": row.k, "vs": row.new["vs"]}, emits="k string, vs long"
    ).aggregate(last["k"], agg.last("vs"))
    return module


def distinct(rows, column):
    """The values, nulls left out."""
    return len({row[column] for row in rows} - {None})


def by(rows, column):
    """The rows by a column."""
    found = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found


@pytest.mark.parametrize(
    ("vnodes", "partitions", "actors"), [(1, 1, 1), (16, 3, 2), (64, 2, 3), (5, 4, 2)]
)
def test_equal_to_sets(vnodes, partitions, actors):
    """In random cuts, with attempts that fail after their work, a reschedule and a restart."""
    dice = random.Random(vnodes)
    rows = rows_of(dice, 300)
    with TopologyTestDriver(build(vnodes, partitions), parallelism=actors) as driver:
        waiting = list(rows)
        while waiting:
            size = dice.randint(1, 80)
            driver.depot("rows").append(waiting[:size])
            del waiting[:size]
            if dice.random() < 0.4:
                driver.fail_next_attempt(after_work=True)
            driver.microbatch(max_records=dice.randint(5, 60))
        driver.app.cluster.set_parallelism("mb", "fixed(2)")
        driver.microbatch(max_records=7)
        driver.restart()
        driver.run_until_idle()
        keys = by(rows, "k")
        assert driver.pstate("by_key").get() == {
            key: {
                "n": len(of),
                "vs": distinct(of, "v"),
                "names": distinct(of, "name"),
                "times": distinct(of, "at"),
            }
            for key, of in keys.items()
        }
        nested = {key: by(of, "k2") for key, of in keys.items()}
        assert driver.pstate("nested").get() == {
            key: {k2: distinct(each, "v") for k2, each in of.items() if k2 is not None}
            for key, of in nested.items()
        }
        present = sum(row["v"] is not None for row in rows)
        assert driver.pstate("all").get() == {"vs": distinct(rows, "v"), "n": present}
        assert driver.pstate("last").get() == {key: distinct(of, "v") for key, of in keys.items()}


def test_a_rollback_forgets_values():
    """What was new after the microbatch that it returns to is new again."""
    with TopologyTestDriver(build(4, 1)) as driver:
        row = {"k": "a", "k2": 1, "v": 1, "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}
        driver.depot("rows").append([row])
        driver.microbatch()
        driver.depot("rows").append([{**row, "v": 2}])
        driver.microbatch()
        assert driver.pstate("nested").get() == {"a": {1: 2}}
        driver.topology("mb").rollback(1)
        assert driver.pstate("nested").get() == {"a": {1: 1}}
        driver.topology("mb").resume()
        driver.run_until_idle()
        assert driver.pstate("nested").get() == {"a": {1: 2}}


def test_conditions_on_spark():
    """Counts of one expression under conditions share their values; each counts its own."""
    module = atoll.Module("conditions")
    depot = module.depot("rows", "k string, v long, w long", partition_by="k", partitions=2)
    mb = module.microbatch("mb", vnode_count=8)
    fields = {"n": int, "few": int, "odd": int, "both": int}
    counts = mb.pstate("counts", Map(str, Struct(**fields)))
    only = mb.pstate("only", Map(str, Struct(few=int, odd=int)))
    source = mb.source(depot)
    value = agg.count_distinct("v")
    some = {"few": value.where("w < 3"), "odd": value.where("w % 2 = 1")}
    source.aggregate(counts["k"], n=value, both=some["few"].where("w % 2 = 1"), **some)
    source.aggregate(only["upper(k)"], **some)
    dice = random.Random(2)
    rows = [
        {"k": dice.choice("ab"), "v": dice.randrange(40), "w": dice.choice([None, *range(6)])}
        for _ in range(150)
    ]
    with TopologyTestDriver(module) as driver:
        for start in range(0, 150, 50):
            driver.depot("rows").append(rows[start : start + 50])
            if start:
                driver.fail_next_attempt(after_work=True)
            driver.microbatch()
        wanted = {}
        for key, of in by(rows, "k").items():
            held = [row for row in of if row["w"] is not None]
            few = [row for row in held if row["w"] < 3]
            odd = [row for row in held if row["w"] % 2]
            wanted[key] = {
                "n": distinct(of, "v"),
                "few": distinct(few, "v"),
                "odd": distinct(odd, "v"),
                "both": distinct([row for row in few if row["w"] % 2], "v"),
            }
        assert driver.pstate("counts").get() == wanted
        assert driver.pstate("only").get() == {
            key.upper(): {"few": of["few"], "odd": of["odd"]} for key, of in wanted.items()
        }


def declared(aggregate, node):
    """A module that aggregates so into a PState of that schema."""
    module = atoll.Module("refused")
    rows = module.depot("rows", "k string, v long, many array<long>")
    mb = module.microbatch("mb", vnode_count=2)
    mb.source(rows).aggregate(mb.pstate("there", Map(str, node))["k"], aggregate)
    return module


@pytest.mark.parametrize(
    ("aggregate", "node", "said"),
    [
        (agg.count_distinct("v"), str, "gives an int, the PState holds"),
        (agg.struct(n=agg.count_distinct("v")), Struct(n=float), "gives an int, the PState holds"),
        (agg.count_distinct("v"), Set(int), "cannot fold into"),
    ],
)
def test_refused_where_it_is_declared(aggregate, node, said):
    """The shape is known on the user's line."""
    with pytest.raises(DeclarationError, match=said) as error:
        declared(aggregate, node)
    assert "test_count_distinct.py" in error.value.context["declared"]


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        (agg.count_distinct("w"), "uses the column 'w'"),
        (agg.count_distinct("many"), "the key 'many' is of type"),
    ],
)
def test_refused_when_it_is_deployed(aggregate, said):
    """Types are known only then."""
    with pytest.raises(DeclarationError, match=said), TopologyTestDriver(declared(aggregate, int)):
        pass
