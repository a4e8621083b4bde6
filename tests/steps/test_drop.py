"""Columns left out: by tasks and by Spark alike, and only those that are there."""

from __future__ import annotations

import json

import pytest

import atoll
from atoll import List, Struct, agg
from atoll.errors import AtollError
from atoll.testing import TopologyTestDriver


def totals(make):
    """Sums of what ``make`` makes of rows with three columns, by the first."""
    module = atoll.Module("drops")
    rows = module.depot("rows", "k string, v long, w string", partitions=2)
    mb = module.microbatch("mb", vnode_count=2, dead_letter=module.dead_letter_depot("dead"))
    sums = mb.pstate("sums", dict[str, int])
    make(mb.source(rows)).aggregate(sums["k"], agg.sum("v"))
    return module


@pytest.mark.parametrize("engine", ["inline", pytest.param("spark", marks=pytest.mark.slow)])
def test_what_is_named_is_left_out(engine):
    """By tasks, which still know the record that is refused behind it, and by Spark."""

    def make(rows):
        rows = rows.drop("w")
        if engine == "spark":
            rows = rows.transform(lambda frame: frame)
        return rows.map(
            lambda row: {"k": row.k, "v": 1 // row.v, "n": len(row.asdict())},
            emits="k string, v long, n long",
        ).drop("n")

    with TopologyTestDriver(totals(make), engine=engine) as driver:
        driver.depot("rows").append([{"k": "a", "v": v, "w": "x"} for v in (1, 0, 1)])
        driver.run_until_idle()
        assert driver.pstate("sums").get("a") == 2
        (rejected,) = driver.depot("dead").read(0, 0, 1).to_pylist()
        assert json.loads(rejected["row"]) == {"k": "a", "v": 0}
        if engine == "spark":
            return
        part, offset = rejected["depot_partition"], rejected["record_offset"]
        (record,) = driver.depot("rows").read(part, offset, offset + 1).to_pylist()
        assert record == {"k": "a", "v": 0, "w": "x"}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("x",), "drop names the column 'x', which the rows before it do not have"),
        (("k", "v", "w"), "drop leaves no column"),
        ((), "drop names no column"),
    ],
)
def test_what_cannot_be(names, problem):
    """When the module is deployed, with the columns that there are."""
    module = totals(lambda rows: rows.drop(*names).select("k", "v"))
    with pytest.raises(AtollError, match=problem) as caught, TopologyTestDriver(module):
        pass
    assert "k, v, w" in caught.value.hint


def test_a_query_may_drop():
    """It needs no Spark."""
    module = atoll.Module("asked")
    rows = module.query("short", rows=List(Struct(k=str, v=int)))
    rows.explode("rows", "row").select("row.k AS k", "row.v AS v").drop("V").returns(rows="all")
    with TopologyTestDriver(module) as driver:
        assert driver.app.query("short", rows=[{"k": "a", "v": 1}]) == [{"k": "a"}]
