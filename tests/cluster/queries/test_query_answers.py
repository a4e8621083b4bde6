"""What a step that asks a query declares is held against the answer before anything runs.

And a query without parameters shows no column that nobody declared: not in answers, not to
functions, not in messages.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import atoll
from atoll import Map, agg, path, start
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

ROWS = "x long, y int"


def many(module, name="many"):
    """A query of rows with two columns, as many as its argument says."""
    rows = module.query(name, n=int)
    return rows.flat_map(lambda r: [{"x": r.n * 10 + i, "y": i} for i in range(r.n)], emits=ROWS)


def asked(ending, emits, seen):
    """A topology that asks ``many`` for each tick, and counts what comes out by ``seen``."""
    module = atoll.Module("asks")
    ticks = module.depot("ticks", "n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    out = mb.pstate("out", Map(str, int))
    ending(many(module))
    rows = mb.source(ticks, start_from=start.beginning()).query("many", n="n", emits=emits)
    rows.map(lambda r: {"seen": repr(seen(r))}, emits="seen string").aggregate(
        out["seen"], agg.count()
    )
    return module


def answers(module, *numbers):
    """What the topology counted, over one microbatch with these ticks."""
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("ticks").append([{"n": n} for n in numbers])
        driver.microbatch()
        return driver.pstate("out").get()


def all_rows(rows):
    """The rows as they are."""
    rows.returns(rows="all")


def all_x(rows):
    """The values of a column."""
    rows.returns("x", rows="all")


def one_sum(rows):
    """One value."""
    rows.agg(total=agg.sum("x")).returns("total")


def one_row(rows):
    """One row of two columns."""
    rows.agg(total=agg.sum("x"), rows=agg.count()).returns()


# What fits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "emits", "seen", "expected"),
    [
        (all_rows, "x long, y int", lambda r: (r.n, r.x, r.y), {"(1, 10, 0)": 1}),
        (all_rows, "y long", lambda r: (r.n, r.y), {"(1, 0)": 1}),
        (all_x, "each long", lambda r: (r.n, r.each), {"(1, 10)": 1}),
        (one_sum, "s long", lambda r: (r.n, r.s), {"(0, None)": 1, "(1, 10)": 1}),
        (one_row, "total long", lambda r: (r.n, r.total), {"(0, None)": 1, "(1, 10)": 1}),
    ],
    ids=["rows by name", "some, widened", "values", "a value", "some of a row"],
)
def test_an_answer_fills_columns(ending, emits, seen, expected):
    """By name for rows, whatever the name for a value; rows="all" drops rows without an answer."""
    assert answers(asked(ending, emits, seen), 0, 1) == expected


# What does not, and what to write instead -------------------------------------------------------

WRONG = {
    "rows as a list": (
        all_rows,
        "rows array<struct<x: long, y: int>>",
        "x long, y int in each row of its answer",
    ),
    "values as a list": (all_x, "xs array<long>", "x long in each row of its answer"),
    "another type": (all_rows, "x string", "x long, y int in each row of its answer"),
    "a narrower type": (all_x, "x int", "x long in each row of its answer"),
    "two for a value": (one_sum, "a long, b long", "total long in its answer"),
    "a value of another type": (one_sum, "total string", "total long in its answer"),
    "names of one row": (one_row, "sum long", "total long, rows long in its answer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_shape_is_refused_at_the_deployment(name):
    """With the columns of both; what the hint says to write is accepted."""
    ending, emits, has = WRONG[name]
    module = asked(ending, emits, lambda r: r.n)
    with pytest.raises(DeclarationError) as caught, TopologyTestDriver(module, engine="inline"):
        pass
    error = caught.value
    assert f"query 'many' has {has}" in error.message
    assert f'emits="{emits}"' in error.message
    assert "test_query_answers.py" in error.context["declared"]
    written = re.search(r'write emits="([^"]+)"', error.hint)[1]
    assert answers(asked(ending, written, lambda r: r.n), 1) == {"1": 1}


@pytest.mark.parametrize("name", ["rows as a list", "values as a list"])
def test_the_hint_for_a_list_gives_one(name):
    """The steps that it says to end the query with, followed to the letter."""
    ending, emits, _ = WRONG[name]
    module = asked(ending, emits, lambda r: r.n)
    with pytest.raises(DeclarationError) as caught, TopologyTestDriver(module, engine="inline"):
        pass
    steps = caught.value.hint.rpartition("end the query with ")[2]
    column, emits = emits.split()[0], emits.replace("int", "long")
    gathered = asked(
        lambda rows: eval(f"rows{steps}", {"rows": rows, "agg": agg}),
        emits,
        lambda r: len(r[column]),
    )
    assert answers(gathered, 2) == {"2": 1}


def test_a_query_that_asks_is_held_to_the_same():
    """A step of a query, also of one that no topology asks."""
    module = asked(all_rows, "x long", lambda r: r.n)
    module.query("outer", n=int).query("many", n="n", emits="rows array<long>").returns("rows")
    with (
        pytest.raises(DeclarationError, match="query 'many' has x long, y int"),
        TopologyTestDriver(module, engine="inline"),
    ):
        pass


def test_a_query_that_asks_itself_is_held_to_its_own_answer():
    """It is bound before its answer is known."""
    module = asked(all_rows, "x long", lambda r: r.n)
    own = module.query("own", n=int)
    own.query("own", n="n", emits="text string").select("n").returns("n")
    with (
        pytest.raises(DeclarationError, match="query 'own' has n long in its answer"),
        TopologyTestDriver(module, engine="inline"),
    ):
        pass


# Queries without parameters ---------------------------------------------------------------------


@pytest.fixture
def app():
    """A module with queries that take nothing, over one count."""
    module = atoll.Module("bare")
    words = module.depot("words", "k string", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    counts = mb.pstate("counts", Map(str, int))
    total = mb.pstate("total", int, initial=0)
    rows = mb.source(words, start_from=start.beginning())
    rows.aggregate(counts["k"], agg.count())
    rows.aggregate(total, agg.count())
    every = module.query("every").select_from(
        counts, lambda row: path.all(), emits="k string, n long"
    )
    every.returns(rows="all")
    module.query("itself").returns()
    module.query("rows").returns(rows="all")
    module.query("counted").agg(n=agg.count()).returns("n")
    module.query("seen").map(lambda row: {"text": repr(row)}, emits="text string").returns("text")
    module.query("kept").where(lambda row: row.asdict() == {}).returns()
    module.query("none").where(lambda row: False).returns()
    module.query("literal").select("1 AS one").returns()
    module.query("added").with_columns(one="1").returns()
    module.query("both").lookup(total, "t").lookup(total, "u").returns()
    module.query("asks").query("added", emits="one int").returns()
    module.query("unique").distinct().returns(rows="all")
    batches = module.query("batches").map_batches(
        lambda found: (
            pa.RecordBatch.from_pydict({"text": [f"{each.schema.names} {each.num_rows}"]})
            for each in found
        ),
        emits="text string",
    )
    batches.returns("text")
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("words").append([{"k": "a"}])
        driver.microbatch()
        yield driver.app


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("every", [{"k": "a", "n": 1}]),
        ("itself", {}),
        ("rows", [{}]),
        ("counted", 1),
        ("seen", "Row()"),
        ("kept", {}),
        ("none", None),
        ("literal", {"one": 1}),
        ("added", {"one": 1}),
        ("both", {"t": 1, "u": 1}),
        ("asks", {"one": 1}),
        ("unique", [{}]),
        ("batches", "[] 1"),
    ],
)
def test_nothing_stands_in_for_no_columns(app, query, expected):
    """One row without columns goes through every kind of step, and shows as none."""
    assert app.query(query) == expected


NO_COLUMNS = {
    "a column": lambda q: q.returns("_"),
    "selected": lambda q: q.select("_").returns(),
    "what stands in": lambda q: q.returns("__atoll_no_column"),
    "what stands in, selected": lambda q: q.select("__atoll_no_column").returns(),
    "distinct": lambda q: q.distinct("x").returns(),
}


@pytest.mark.parametrize("name", NO_COLUMNS)
def test_no_message_names_what_stands_in(name):
    """The rows of such a query have no columns."""
    module = atoll.Module("bare")
    depot = module.depot("d", "k string", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    mb.source(depot).aggregate(mb.pstate("p", Map(str, int))["k"], agg.count())
    NO_COLUMNS[name](module.query("q"))
    with pytest.raises(DeclarationError) as caught, TopologyTestDriver(module, engine="inline"):
        pass
    assert caught.value.hint == "they have none"


def test_a_column_called_underscore_is_the_user_s():
    """The name is taken by nobody."""
    module = atoll.Module("bare")
    depot = module.depot("d", "k string", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    mb.source(depot).aggregate(mb.pstate("p", Map(str, int))["k"], agg.count())
    module.query("q", _=int).returns()
    with TopologyTestDriver(module, engine="inline") as driver:
        assert driver.app.query("q", _=3) == {"_": 3}
