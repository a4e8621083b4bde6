"""Spark SQL's plain aggregates without Spark: the same rows and types, and what Spark keeps."""

from __future__ import annotations

import pyarrow as pa
import pytest
from spark_edges import edge_values

import atoll
from atoll import start
from atoll.columns.types import NotCertifiedError
from atoll.errors import DeclarationError, TopologyFailedError
from atoll.steps.group_agg.declare import GroupAgg
from atoll.steps.group_agg.folding import agg_schema
from atoll.testing import TopologyTestDriver
from atoll.topology.sources import Source

ROW = "k string, d date, v int, big long, x double, price decimal(9, 2), at timestamp"
RECORDS = [
    {"k": "a", "v": 3, "big": 5, "x": 0.5, "price": "1.25"},
    {"k": None, "v": None, "big": None, "x": float("nan"), "price": None},
    {"k": "b", "v": -7, "big": 2**40, "x": -1.0, "price": "-3.00"},
    {"k": "a", "v": 4, "big": 6, "x": 1.5, "price": "0.05"},
    {"k": None, "v": 1, "big": 1, "x": 2.0, "price": "9.99"},
]


def module_of(make, emitted, columns="tasks"):
    """What ``make`` makes of a depot's rows, in another one."""
    module = atoll.Module("aggregated")
    rows = module.depot("rows", ROW, partitions=1)
    out = module.depot("out", emitted, partitions=1)
    options = {"topology.microbatch.retry.delay.max.millis": 1}
    mb = module.microbatch("mb", vnode_count=2, columns=columns, options=options)
    make(mb.source(rows, start_from=start.beginning())).append_to(out)
    return module


def out_of(make, emitted, columns="tasks", engine="inline"):
    """The rows, and which way each column step went."""
    from decimal import Decimal

    with TopologyTestDriver(module_of(make, emitted, columns), engine=engine) as driver:
        prices = [each["price"] and Decimal(each["price"]) for each in RECORDS]
        records = [each | {"price": p} for each, p in zip(RECORDS, prices, strict=True)]
        driver.depot("rows").append(records)
        driver.run_until_idle()
        out = driver.depot("out")
        found = out.read(0, 0, out.end_offsets()[0]).to_pylist()
        return found, driver.app.topology("mb").status()["columns"]


def by_key(rows):
    """The aggregates, some of computed values."""
    return rows.group_by("k").agg(
        "count(*) AS n",
        "count(v) AS vs",
        "sum(v + 1) AS total",
        "min(v) AS low",
        "max(big) AS high",
        "avg(v) AS mean",
        "sum(price) AS paid",
        "max(if(x > 1, x, NULL)) AS top",
    )


EMITTED = "k string, n long, vs long, total long, low int, high long, mean double"
EMITTED += ", paid decimal(19, 2), top double"


def test_aggregates_by_key():
    """A null key is one; nulls are left out; NaN is the greatest."""
    found, ways = out_of(by_key, EMITTED)
    assert {each["way"] for each in ways} == {"tasks"}
    rows = {each.pop("k"): each for each in found}
    assert [str(rows[key]["paid"]) for key in ("a", "b", None)] == ["1.30", "-3.00", "9.99"]
    assert rows["a"] | {"paid": 0} == {
        "n": 2, "vs": 2, "total": 9, "low": 3, "high": 6, "mean": 3.5, "top": 1.5, "paid": 0,
    }  # fmt: skip
    assert (rows[None]["n"], rows[None]["vs"], rows[None]["mean"]) == (2, 1, 1.0)
    assert rows[None]["top"] != rows[None]["top"]
    assert rows["b"]["top"] is None


@pytest.mark.slow
def test_spark_makes_the_same():
    """Run by Spark's engine, its way and the tasks'."""
    ours, ways = out_of(by_key, EMITTED, "auto", "spark")
    theirs, others = out_of(by_key, EMITTED, "spark", "spark")
    assert {each["way"] for each in ways} == {"tasks"}
    assert {each["way"] for each in others} == {"spark"}
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


def test_without_keys_a_row_comes_of_no_rows():
    """Counts are 0, sums null."""

    def make(rows):
        return rows.where("v > 100").group_by().agg("count(*) AS n", "sum(v) AS total")

    assert out_of(make, "n long, total long")[0] == [{"n": 0, "total": None}]


def test_steps_go_on_behind_it():
    """Also over expressions as keys, twice."""

    def make(rows):
        totals = rows.group_by("upper(k) AS big_k", "v % 2 AS odd").agg("sum(v) AS total")
        return totals.where("total IS NOT NULL").group_by("odd").agg("max(total) AS most")

    found, _ = out_of(make, "odd int, most long")
    assert sorted(found, key=repr) == [
        {"odd": -1, "most": -7},
        {"odd": 0, "most": 4},
        {"odd": 1, "most": 3},
    ]


def test_a_sum_that_no_long_holds_ends_the_attempt():
    """As Spark's does in ANSI mode."""
    module = module_of(lambda rows: rows.group_by("k").agg("sum(big) AS t"), "k string, t long")
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "big": 2**62}, {"k": "a", "big": 2**62}])
        with pytest.raises(TopologyFailedError, match="range of 64-bit ints"):
            driver.run_until_idle()


SCHEMA = edge_values().schema


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("a_text", "sum(a_int)", "without a name"),
        ("a_text", "count(DISTINCT a_int) AS n", "of distinct values"),
        ("a_text", "sum(a_int) + 1 AS n", "add is not among the aggregates"),
        ("a_text", "stddev(a_int) AS n", "stddev is not among"),
        ("a_text", "sum(a_dec23) AS n", "more digits than folds keep"),
        ("a_text", "avg(a_dec5) AS n", "avg of decimal"),
        ("a_text", "max(a_local) AS n", "max of timestamp_ntz"),
        ("a_text", "sum(cbrt(a_int)) AS n", "cbrt is not among"),
        ("a_text", "first(a_int) AS n", "first is not among"),
        ("a_text", "count(a_int, b_int) AS n", "more than one expression"),
        ("a_double", "count(*) AS n", "of a type that tasks do not group by"),
        ("a_text", "count(*) AS a_text", "two columns of one name"),
    ],
)
def test_what_is_left_to_spark(key, text, why):
    """With the reason."""
    step = GroupAgg((Source((), "", None, None),), "", (key,), (text,))
    with pytest.raises(NotCertifiedError, match=why):
        agg_schema(step, SCHEMA)


def test_the_reason_is_told():
    """By the deployment that demands tasks, and the engine that has no Spark."""
    make = lambda rows: rows.group_by("k").agg("stddev(v) AS s")  # noqa: E731
    with pytest.raises(DeclarationError, match="stddev is not among the aggregates"):
        out_of(make, "k string, s double")


def test_queries_aggregate_the_same_way():
    """Each by itself, in no microbatch."""
    module = atoll.Module("asked")
    asked = module.query("sums", rows=atoll.List(atoll.Struct(k=str, v=int)))
    made = asked.explode("rows", "each").select("each.k AS k", "each.v AS v").group_by("k")
    made.agg("sum(v) AS total", "count(*) AS n").returns(rows="all")
    module.microbatch("mb").source(module.depot("unused", "n long"))
    rows = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}]
    with TopologyTestDriver(module, engine="inline") as driver:
        found = driver.app.query("sums", rows=rows)
    assert sorted(found, key=repr) == [
        {"k": "a", "total": 4, "n": 2},
        {"k": "b", "total": 2, "n": 1},
    ]


@pytest.mark.slow
def test_types_are_sparks():
    """Of all aggregates, over columns of all types that are certified."""
    from atoll.spark.analysis import arrow_schema, spark_schema
    from atoll.spark.session import local_session

    batch = edge_values()
    frame = local_session(2).createDataFrame(
        pa.Table.from_batches([batch]), spark_schema(batch.schema)
    )
    kinds = ("byte", "short", "int", "long", "float", "double", "text", "day", "at", "dec5")
    found = 0
    for word in ("count", "sum", "avg", "min", "max"):
        for kind in kinds:
            step = GroupAgg(
                (Source((), "", None, None),), "", ("a_text",), (f"{word}(a_{kind}) AS x",)
            )
            try:
                made = agg_schema(step, SCHEMA)
            except NotCertifiedError:
                continue
            found += 1
            sparks = arrow_schema(step.apply([frame], 1).schema)
            assert made.types == sparks.types, (word, kind)
    assert found == 41
