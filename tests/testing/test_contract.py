"""The same cases, run on the driver and on running clusters, give the same results.

Each case is a module, the records of each stretch, and what plain Python makes of them.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import Map, Struct, agg, start
from atoll.testing import TopologyTestDriver

RECORDS = [
    {"k": generator.choice("abcdef"), "n": generator.randint(-20, 20)}
    for generator in [random.Random(23)]
    for _ in range(60)
]
STRETCHES = [RECORDS[:1], RECORDS[1:40], RECORDS[40:]]


def _source(name, options=None, vnodes=8):
    module = atoll.Module(name)
    depot = module.depot("events", "k string, n long", partition_by="k", partitions=3)
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    return module, mb, mb.source(depot, start_from=start.beginning())


def _aggregates():
    """Nested counts, structs and a global sum in one topology."""
    module, mb, source = _source("aggregates")
    counts = mb.pstate("counts", Map(str, Map(int, int)))
    total = mb.pstate("total", int, initial=0)
    stats = mb.pstate("stats", Map(str, Struct(n=int, high=int)))
    source.aggregate(counts["k"]["n"], agg.count())
    source.aggregate(total, agg.sum("n"))
    source.aggregate(stats["k"], n=agg.count(), high=agg.max("n"))
    groups = defaultdict(list)
    for each in RECORDS:
        groups[each["k"]].append(each["n"])
    return module, {
        "counts": {k: dict(sorted(Counter(groups[k]).items())) for k in sorted(groups)},
        "total": sum(each["n"] for each in RECORDS),
        "stats": {k: {"n": len(groups[k]), "high": max(groups[k])} for k in sorted(groups)},
    }


def _balance(row, balances):
    if balances.get(row.k, 0) + row.n >= 0:
        balances[row.k] = balances.get(row.k, 0) + row.n
        yield {"n": row.n}


def _in_order():
    """A function whose result depends on the order of a key's rows, and a second job after it."""
    module, mb, source = _source("in-order")
    balances = mb.pstate("balances", Map(str, int))
    taken = mb.pstate("taken", Map(int, int))
    accepted = source.process(_balance, key="k", states=[balances], emits="n long")
    accepted.aggregate(taken["n"], agg.count())
    held, accepted_n = {}, Counter()
    for each in RECORDS:
        if held.get(each["k"], 0) + each["n"] >= 0:
            held[each["k"]] = held.get(each["k"], 0) + each["n"]
            accepted_n[each["n"]] += 1
    return module, {
        "balances": dict(sorted(held.items())),
        "taken": dict(sorted(accepted_n.items())),
    }


def _lookups():
    """Rows see another PState as this microbatch leaves it; changes telescope."""
    module, mb, source = _source("lookups")
    sums = mb.pstate("sums", Map(str, int))
    grown = mb.pstate("grown", Map(str, int))
    changes = source.aggregate(sums["k"], agg.sum("n")).changes()
    deltas = changes.map(
        lambda row: {"k": row.k, "by": row.new - (row.old or 0)}, emits="k string, by long"
    )
    deltas.aggregate(grown["k"], agg.sum("by"))
    totals = Counter()
    for each in RECORDS:
        totals[each["k"]] += each["n"]
    return module, {name: dict(sorted(totals.items())) for name in ("sums", "grown")}


def _columns():
    """Steps that only Spark can run: the driver starts it for them."""
    module, mb, source = _source("columns")
    doubled = mb.pstate("doubled", Map(str, int))
    source.where("n > 0").with_columns(m="n * 2").aggregate(doubled["k"], agg.sum("m"))
    totals = Counter()
    for each in RECORDS:
        if each["n"] > 0:
            totals[each["k"]] += 2 * each["n"]
    return module, {"doubled": dict(sorted(totals.items()))}


PYTHON_CASES = [_aggregates, _in_order, _lookups]
ALL_CASES = [*PYTHON_CASES, _columns]


def _driven(module, **settings):
    with TopologyTestDriver(module, **settings) as driver:
        for stretch in STRETCHES:
            driver.depot("events").append(stretch)
            driver.fail_next_attempt(after_work=True)
            ran = driver.microbatch()
            assert (ran.version, ran.records) == (2, len(stretch))
        return {name: driver.pstate(name).get() for name in driver.app.pstates()}


def _running(module, engine):
    with atoll.LocalCluster(engine=engine, parallelism=3) as cluster:
        app = cluster.deploy(module)
        for stretch in STRETCHES:
            app.depot("events").append(stretch)
        app.topology("mb").wait_processed(len(RECORDS))
        return {name: app.pstate(name).get() for name in app.pstates()}


@pytest.mark.parametrize("case", PYTHON_CASES)
@pytest.mark.parametrize("parallelism", [1, 4])
def test_driver(case, parallelism):
    """Without Spark, each first attempt undone."""
    module, expected = case()
    assert expected == _driven(module, parallelism=parallelism)


@pytest.mark.parametrize("case", PYTHON_CASES)
def test_inline_cluster(case):
    """Threads, the same engine."""
    module, expected = case()
    assert expected == _running(module, "inline")


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL_CASES)
def test_driver_on_spark(case):
    """Attempts as Spark jobs, one after the other when told to."""
    module, expected = case()
    assert expected == _driven(module, engine="spark" if case in PYTHON_CASES else "auto")


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL_CASES)
def test_spark_cluster(case):
    """As in production."""
    module, expected = case()
    assert expected == _running(module, "auto" if case is _columns else "spark")


@pytest.mark.slow
@pytest.mark.parametrize("small", [0, 20_000])
def test_options_on_spark(small):
    """Tight limits, set while it runs, with and without an exchange."""
    limits = {
        "topology.microbatch.small.max.records": small,
        "topology.combiner.limit": 3,
        "topology.spark.batch.max.rows": 1,
        "depot.max.fetch": 2,
        "pstate.flush.max.entries": 1,
        "pstate.history.seconds": 0,
        "pstate.history.microbatches": 4,
    }
    module, expected = _aggregates()
    with TopologyTestDriver(module, engine="spark") as driver:
        driver.depot("events").append(STRETCHES[0])
        driver.microbatch()
        for name, value in limits.items():
            driver.app.options.set(name, value)
        for stretch in STRETCHES[1:]:
            driver.depot("events").append(stretch)
            driver.microbatch()
        assert expected == {name: driver.pstate(name).get() for name in driver.app.pstates()}
        assert driver.pstate("total").as_of(1).get() == STRETCHES[0][0]["n"]


@pytest.mark.slow
def test_spark_is_told_how_many_rows_to_move_at_once():
    """Where it runs a column step."""
    module = atoll.Module("moving")
    options = {"topology.spark.batch.max.rows": 1}
    mb = module.microbatch("mb", options=options, columns="spark")
    total = mb.pstate("total", int, initial=0)
    rows = mb.source(module.depot("rows", "v long"))
    rows.select("v * 2 AS v").aggregate(total, agg.sum("v"))
    with TopologyTestDriver(module, engine="spark") as driver:
        driver.depot("rows").append([{"v": v} for v in range(5)])
        driver.microbatch()
        assert driver.pstate("total").get() == 20
        session = driver.cluster._engine.session
        assert session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "1"
