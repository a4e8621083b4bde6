"""A select of plain columns runs where the rows are: no engine, no exchange, the same columns."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg, start
from atoll.errors import AtollError
from atoll.steps.columns.select import Select
from atoll.steps.columns.where import Where
from atoll.testing import TopologyTestDriver
from atoll.topology.jobs import cut_into_jobs
from atoll.topology.sources import Source
from atoll.topology.ways import in_tasks

ROW = "k string, v long, w long"


def picking(make, emitted="key string, v long"):
    """What ``make`` makes of a depot's rows, in another depot."""
    module = atoll.Module("picks")
    rows = module.depot("rows", ROW, partitions=1)
    out = module.depot("out", emitted, partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    make(mb.source(rows, start_from=start.beginning())).append_to(out)
    return module


def out_of(module):
    """What comes out of two rows, without Spark."""
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "v": 1, "w": 2}, {"k": None, "v": 3, "w": None}])
        driver.run_until_idle()
        return driver.depot("out").read(0, 0, 2).to_pylist()


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows.select("k AS key", "v"),
        lambda rows: rows.select("K as key", "`v`"),
        lambda rows: rows.select("v", "k AS key"),
        lambda rows: rows.select("w", "k AS key", "v").select("key", "v"),
        lambda rows: rows.where(lambda row: True).select("k AS key", "v AS v"),
        lambda rows: rows.with_columns(key="k").drop("W", "k").select("key", "v"),
        lambda rows: rows.materialize().select("k AS key", "v"),
        lambda rows: rows.select("k AS key", "v AS one").map(
            lambda row: {"key": row.key, "v": row.one}, emits="key string, v long"
        ),
    ],
    ids=[
        "renamed",
        "other case",
        "other order",
        "twice",
        "behind a step",
        "dropped",
        "staged",
        "before a step",
    ],
)
def test_columns_are_picked_and_renamed(make):
    """Wherever it stands among Python steps."""
    assert out_of(picking(make)) == [{"key": "a", "v": 1}, {"key": None, "v": 3}]


def test_two_names_of_one_column():
    """Are two columns."""
    module = picking(lambda rows: rows.select("v", "v AS key"), "key long, v long")
    assert out_of(module) == [{"key": 1, "v": 1}, {"key": 3, "v": 3}]


@pytest.mark.parametrize(
    ("expressions", "words"),
    [
        (("nothing", "v"), "'nothing', which the rows before it do not have"),
        (("k AS v", "v"), "more than one column 'v'"),
        (("cbrt(v) AS key", "v"), "select is a column step"),
    ],
)
def test_what_cannot_be_picked_is_refused(expressions, words):
    """When the module is deployed."""
    module = picking(lambda rows: rows.select(*expressions))
    with pytest.raises(AtollError, match=words):
        out_of(module)


def test_a_select_behind_spark_stays_with_it():
    """So that Spark moves no column that nobody wants; one before it as well."""
    module = atoll.Module("m")
    rows = module.depot("rows", ROW)
    mb = module.microbatch("mb")
    counts = mb.pstate("counts", Map(str, int))
    picked = mb.source(rows).select("k")
    picked.aggregate(counts["k"], agg.count())
    filtered = mb.source(rows).where("v > 1").select("k")
    filtered.aggregate(counts["k"], agg.count())
    picked.where("k <> 'a'").aggregate(counts["k"], agg.count())
    selects = [each for each in mb.graph.operators if isinstance(each, Select)]
    cut = cut_into_jobs(mb.graph, in_tasks(mb.graph.operators, selects))
    chains = [chain for job in cut.jobs for chain in job.chains]
    assert [type(chain.origin) for chain in chains] == [Source, Select, Where]
    assert [len(chain.steps) for chain in chains] == [1, 0, 0]
