"""Rows on which an expression of Spark's fails: found in every kind of step, named and set aside.

The topologies of a module read the same records, so that one deployment shows many of them.
"""

from __future__ import annotations

import json
import random

import pytest

import atoll
from atoll import Map, agg
from atoll.errors import TopologyFailedError

DDL = "k string, v long, s string"
OPTIONS = {"topology.microbatch.retry.delay.max.millis": 1}
BAD = {"x", "y"}


def _pass(row, seen):
    seen[row.k] = row.v
    yield row.asdict()


def _same(row):
    return row.asdict()


SUM = agg.sum("n")


def _group(rows, into):
    rows.group_by("k").agg("sum(cast(s AS long)) AS n").aggregate(into, SUM)


STEPS = {
    "with_columns": lambda rows, into, _: rows.with_columns(n="cast(s AS long)").aggregate(
        into, SUM
    ),
    "where": lambda rows, into, _: (
        rows.map(_same, emits=DDL).where("cast(s AS long) >= 0").aggregate(into, agg.sum("v"))
    ),
    "select": lambda rows, into, _: (
        rows.select("k", "1000 div (ascii(s) - 120) AS d", "v AS n")
        .where("d IS NOT NULL")
        .aggregate(into, SUM)
    ),
    "explode": lambda rows, into, _: rows.explode("array(cast(s AS long))", "n").aggregate(
        into, SUM
    ),
    "aggregate": lambda rows, into, _: rows.aggregate(into, agg.sum("cast(s AS long)")),
    "agg": lambda rows, into, _: _group(rows, into),
    "join": lambda rows, into, _: rows.join(
        rows.select("v AS w", "s AS t"), on="left.v = cast(right.t AS long)"
    ).aggregate(into, agg.sum("v")),
    "later": lambda rows, into, seen: (
        rows.process(_pass, key="k", states=[seen], emits=DDL)
        .with_columns(n="cast(s AS long)")
        .aggregate(into, SUM)
    ),
}


def _module(names, dead, columns="auto"):
    module = atoll.Module("expressions")
    rows = module.depot("rows", DDL, partitions=3)
    rejected = module.dead_letter_depot("rejected")
    for name in names:
        mb = module.microbatch(
            name,
            vnode_count=4,
            dead_letter=rejected if dead else None,
            options=OPTIONS,
            columns=columns,
        )
        into = mb.pstate(f"sums_{name}", Map(str, int))
        seen = mb.pstate(f"seen_{name}", Map(str, int)) if name == "later" else None
        STEPS[name](mb.source(rows), into["k"], seen)
    return module


def _records(seed):
    rand = random.Random(seed)
    records = [{"k": f"k{rand.randrange(5)}", "v": n, "s": str(n)} for n in range(60)]
    for at, each in enumerate(rand.sample(records, 7)):
        each["s"] = "xy"[at % 2]
    return records


def _placed(app):
    depot = app.depot("rows")
    return {
        (partition, offset): row
        for partition, end in enumerate(depot.end_offsets())
        for offset, row in enumerate(depot.read(partition, 0, end).to_pylist())
    }


@pytest.mark.parametrize("columns", ["auto", "spark"])
def test_rows_on_which_an_expression_fails_are_set_aside(cluster, columns):
    """In each kind of step exactly those, once, each under its record; the others are summed."""
    app = cluster.deploy(_module(STEPS, dead=True, columns=columns))
    app.depot("rows").append(_records(5))
    for name in STEPS:
        app.topology(name).wait_processed(60, timeout_seconds=300)
    where = _placed(app)
    depot = app.depot("rejected")
    rejected = depot.read(0, 0, depot.end_offsets()[0]).to_pylist()
    for name in STEPS:
        bad = {"x"} if name == "select" else BAD
        mine = [each for each in rejected if each["topology"] == name]
        found = sorted((each["depot_partition"], each["record_offset"]) for each in mine)
        assert found == sorted(p for p, row in where.items() if row["s"] in bad), name
        for each in mine:
            row = where[each["depot_partition"], each["record_offset"]]
            shown = {"w": row["v"], "t": row["s"]} if name == "join" else row
            assert json.loads(each["row"]) == shown
            assert each["line"].startswith("test_bad_expressions.py:")
            assert each["depot"] == "rows"
            assert f"fails where {'t' if name == 'join' else 's'}={row['s']!r}" in each["error"]
        sums = {}
        for row in where.values():
            if row["s"] not in bad:
                sums[row["k"]] = sums.get(row["k"], 0) + row["v"]
        assert app.pstate(f"sums_{name}").get() == sums, name


@pytest.mark.parametrize("columns", ["auto", "spark"])
@pytest.mark.parametrize("name", ["with_columns", "later"])
def test_a_row_is_named_with_what_spark_says(cluster, name, columns):
    """Two attempts, and the error has step, line, record, row, value and Spark's own words.

    It is the first record where they are read; in a later job, whose rows come in another order,
    it is one of them.
    """
    app = cluster.deploy(_module([name], dead=False, columns=columns))
    app.topology(name).pause()
    app.depot("rows").append(_records(6))
    app.topology(name).resume()
    with pytest.raises(TopologyFailedError) as caught:
        app.topology(name).wait_processed(60, timeout_seconds=300)
    status = app.topology(name).status()
    assert (status["version"], status["error"]["code"]) == (2, "E-DATA")
    bad = [place for place, row in sorted(_placed(app).items()) if row["s"] in BAD]
    context = caught.value.context
    place = int(context["depot_partition"]), int(context["record_offset"])
    assert place in (bad if name == "later" else bad[:1])
    row = _placed(app)[place]
    assert context["row"] == f"Row(k={row['k']!r}, v={row['v']}, s={row['s']!r})"
    assert context["declared"].startswith("test_bad_expressions.py:")
    message = caught.value.message
    assert f"n = cast(s AS long) fails where s={row['s']!r}: [CAST_INVALID_INPUT]" in message
    assert f"The value {row['s']!r}" in message


def test_what_cannot_be_found_fails_at_once(cluster):
    """A sum of Spark's own that overflows is no row's value: two attempts, not ten."""
    module = atoll.Module("expressions")
    rows = module.depot("rows", DDL, partitions=3)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch(
        "mb", vnode_count=4, dead_letter=rejected, options=OPTIONS, columns="spark"
    )
    totals = mb.source(rows).group_by("k").agg("sum(v) AS n")
    totals.aggregate(mb.pstate("sums", Map(str, int))["k"], SUM)
    app = cluster.deploy(module)
    app.depot("rows").append([{"k": "a", "v": 2**62}] * 3)
    with pytest.raises(TopologyFailedError, match="ARITHMETIC_OVERFLOW"):
        app.topology("mb").wait_processed(3, timeout_seconds=300)
    assert app.topology("mb").status()["version"] == 2
