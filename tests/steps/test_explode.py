"""Explode runs in the tasks: the same rows as Spark's, in order, and rows that fail set aside."""

from __future__ import annotations

import pyarrow as pa
import pytest
from spark_edges import edge_values

import atoll
from atoll import List, Map, agg, start
from atoll.errors import DeclarationError
from atoll.steps.columns.computing import computing
from atoll.steps.columns.explode import Explode
from atoll.testing import TopologyTestDriver

ROW = "k string, v int, tags array<string>, counts map<string, long>"
RECORDS = [
    {"k": "a", "v": 1, "tags": ["x", None, "y"], "counts": {"p": 1, "q": 2}},
    {"k": "b", "v": 0, "tags": [], "counts": {}},
    {"k": "c", "v": 7, "tags": None, "counts": None},
    {"k": "d", "v": 2, "tags": ["z"], "counts": {"r": 3}},
]


def out_of(make, emitted, dead=False):
    """What ``make`` makes of the records, and what it sets aside."""
    module = atoll.Module("exploding")
    rows = module.depot("rows", ROW, partitions=1)
    out = module.depot("out", emitted, partitions=1)
    letters = module.dead_letter_depot("dead") if dead else None
    mb = module.microbatch("mb", vnode_count=2, columns="tasks", dead_letter=letters)
    make(mb.source(rows, start_from=start.beginning())).append_to(out)
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append(RECORDS)
        driver.run_until_idle()
        found = driver.depot("out").read(0, 0, driver.depot("out").end_offsets()[0]).to_pylist()
        if not dead:
            return found
        letters_end = driver.depot("dead").end_offsets()[0]
        return found, driver.depot("dead").read(0, 0, letters_end).to_pylist()


def test_elements_of_arrays():
    """Each beside the other columns; a null among them is one, a null array has none."""
    found = out_of(
        lambda rows: rows.explode("tags", "tag").select("k", "tag"), "k string, tag string"
    )
    assert found == [
        {"k": k, "tag": t} for k, t in [("a", "x"), ("a", None), ("a", "y"), ("d", "z")]
    ]


def test_outer_keeps_rows_without_elements():
    """With null; the column that was taken apart gives way."""
    found = out_of(
        lambda rows: rows.explode("tags", outer=True).select("k", "tags"), "k string, tags string"
    )
    assert [each["k"] for each in found] == ["a", "a", "a", "b", "c", "d"]
    assert [each["tags"] for each in found] == ["x", None, "y", None, None, "z"]


def test_entries_of_maps():
    """Key and value, two names."""
    found = out_of(
        lambda rows: rows.explode("counts", "word", "n").where("n < 3").select("word", "n"),
        "word string, n long",
    )
    assert found == [{"word": "p", "n": 1}, {"word": "q", "n": 2}]


def test_what_is_taken_apart_may_be_computed():
    """By a certified expression; a row on which it fails goes aside."""
    text = "split(repeat(cast(10 div v AS string), 2), '0')"
    found, dead = out_of(
        lambda rows: rows.explode(text, "part").select("k", "part"),
        "k string, part string",
        dead=True,
    )
    parts = [("a", "1"), ("a", "1"), ("a", ""), ("c", "11"), ("d", "55")]
    assert [(each["k"], each["part"]) for each in found] == parts
    assert [each["operator"] for each in dead] == ["explode"]
    assert "DIVIDE_BY_ZERO" in dead[0]["error"]


def test_other_columns_are_refused():
    """When the module is deployed."""
    with pytest.raises(DeclarationError, match="needs an array, or a map and two names"):
        out_of(lambda rows: rows.explode("v", "x").select("x"), "x int")
    with pytest.raises(DeclarationError, match="'nothing', which the rows before it do not have"):
        out_of(lambda rows: rows.explode("nothing", "x").select("x"), "x int")


def test_an_aggregate_behind_it():
    """Without Spark, as the guide has it."""
    module = atoll.Module("tagged")
    rows = module.depot("rows", ROW)
    mb = module.microbatch("mb", vnode_count=2)
    counts = mb.pstate("counts", Map(str, int))
    seen = mb.pstate("seen", List(str))
    tags = mb.source(rows).explode("tags", "tag").where("tag IS NOT NULL")
    tags.aggregate(counts["tag"], agg.count())
    tags.aggregate(seen, agg.collect_list("tag"))
    with TopologyTestDriver(module) as driver:
        driver.depot("rows").append(RECORDS)
        driver.run_until_idle()
        assert driver.pstate("counts").get() == {"x": 1, "y": 1, "z": 1}
        assert sorted(driver.pstate("seen").get()) == ["x", "y", "z"]
        assert {each["way"] for each in driver.app.topology("mb").status()["columns"]} == {"tasks"}


@pytest.mark.slow
@pytest.mark.parametrize("outer", [False, True])
def test_spark_makes_the_same(outer):
    """Of arrays, maps, nested ones and computed ones."""
    from atoll.spark.analysis import arrow_schema, spark_schema
    from atoll.spark.session import local_session

    batch = edge_values().select(["items", "words", "counts", "pairs", "a_int", "a_text"])
    frame = local_session(2).createDataFrame(
        pa.Table.from_batches([batch]), spark_schema(batch.schema)
    )
    for text, names in (
        ("items", ("x",)),
        ("words", ("words",)),
        ("counts", ("key", "value")),
        ("pairs", ("pair",)),
        ("split(a_text, ',')", ("part",)),
    ):
        step = Explode((), "", text, names, outer)
        theirs = step.apply([frame.coalesce(1)], 1)
        made = computing(step, batch.schema, arrow_schema(theirs.schema))
        (ours,) = made.run(iter([batch]), batch.schema)
        expected = theirs.toArrow().combine_chunks()
        assert pa.Table.from_batches([ours]).to_pylist() == expected.to_pylist(), text
