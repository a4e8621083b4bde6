"""Batch blocks and control flow as declarations: what they add, and what is refused where."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import Map, agg
from atoll.steps.process.declare import Process
from atoll.topology.expressions import bare_column, named
from atoll.topology.jobs import cut_into_jobs

ROWS = "k string, v long"


@pytest.fixture
def mb():
    """A topology over one depot."""
    module = atoll.Module("shop")
    module.depot("rows", ROWS)
    return module.microbatch("mb")


@pytest.fixture
def rows(mb):
    """The stream of the depot."""
    return mb.source(mb.module.depots["rows"])


def _kinds(mb):
    return [type(each).__name__ for each in mb.graph.operators][1:]


def _jobs(mb):
    return [[type(each).__name__ for each in job.steps] for job in cut_into_jobs(mb.graph).jobs]


def test_each_method_adds_its_operators(mb, rows):
    """And every one of them names the user's line."""
    other = rows.select("k", "v AS w")
    rows.join(other, on=["k", "left.v < right.w"], how="full_outer")
    rows.group_by("k", "v % 2 AS odd").agg("count(1) AS n")
    rows.group_by("k").agg(total=agg.sum("v * 2"))
    rows.agg(n=agg.count())
    rows.distinct("k")
    rows.materialize()
    rows.where(lambda row: row.v)
    rows.to_all()
    rows.to_vnode("v")
    rows.partition_by(lambda row: row.v)
    assert _kinds(mb) == [
        "Select", "Join", "WithColumns", "GroupAgg", "WithColumns", "Fold", "Fold", "Distinct",
        "Materialize", "Keep", "ToAll", "PlaceBy", "Numbered", "PlaceBy",
    ]  # fmt: skip
    assert all(each.place.startswith("test_batch_steps.py:") for each in mb.graph.operators)
    join = mb.graph.operators[2]
    assert (join.names, join.conditions, join.how) == (("k",), ("left.v < right.w",), "full")


def test_what_emits_ends_a_job(mb, rows):
    """A fold and a materialize stage their rows; what follows is the next job."""
    target = mb.pstate("target", Map(str, int))
    once = rows.materialize()
    once.group_by("k").agg(total=agg.sum("v")).aggregate(target["k"], agg.sum("total"))
    once.aggregate(target["k"], agg.count())
    assert _jobs(mb) == [["Materialize"], ["Fold", "Aggregate"], ["Aggregate"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k", ("k", "k")),
        (" v % 2 as odd ", ("v % 2", "odd")),
        ("cast(v AS int)", ("cast(v AS int)", "cast(v AS int)")),
        ("cast(v AS int) AS `as it is`", ("cast(v AS int)", "as it is")),
        ("`odd name`", ("`odd name`", "odd name")),
    ],
)
def test_names_of_expressions(text, expected):
    """What follows AS, else the text itself."""
    assert named(text) == expected
    assert bare_column("left.a = right.a") is None


def test_joins_that_cannot_be(mb, rows):
    """Each with a sentence and on its line."""
    state = mb.pstate("state", Map(str, int))
    for how in ("right", "full", "anti"):
        with refused("would read the whole PState"):
            rows.join(state["k"], how=how)
    with refused("takes no on="):
        rows.join(state["k"], on="k")
    with refused("is not known", "inner, left"):
        rows.join(rows, on="k", how="sideways")
    with refused("join needs to know"):
        rows.join(rows)
    with refused("join needs to know"):
        rows.join(rows, on=[])
    with refused("takes a stream or a place in a PState"):
        rows.join("others", on="k")
    with refused("takes no column="):
        rows.join(rows, on="k", column="x")
    strange = atoll.Module("other").microbatch("mb")
    strange_rows = strange.source(strange.module.depot("rows", ROWS))
    with refused("a stream of another topology"):
        rows.join(strange_rows, on="k")
    with refused("reads the PState", "mirror_pstate('other', 'theirs', Map(str, int))"):
        rows.join(strange.pstate("theirs", Map(str, int))["k"])


def test_aggregates_that_cannot_be(rows):
    """Both kinds, none, or what is none."""
    with refused("either as Spark SQL or"):
        rows.agg()
    with refused("either as Spark SQL or"):
        rows.group_by("k").agg("count(1)", n=agg.count())
    with refused("is no aggregate"):
        rows.agg(n="count(1)")
    with refused("as text, not"):
        rows.agg(agg.count())
    with refused("takes elements out of a Set", "keep the set in a PState"):
        rows.agg(vs=agg.collect_set("v", remove="v > 1"))
    with refused("deletes entries of a PState", "filter the rows"):
        rows.agg(gone=agg.voided())
    with refused("has agg.accumulate(max, v) in it", "use agg.combine"):
        rows.agg(m=agg.map("k", agg.accumulate(max, "v", initial=0)))
    with refused("two keys of one name"):
        rows.group_by("k", "upper(k) AS k").agg("count(1)")


def test_branches_and_loops_that_cannot_be(rows):
    """Each with what to write instead."""
    with refused("branch needs a condition"):
        rows.branch()
    with refused("branch takes a function"):
        rows.branch(3)
    with refused("loop at_most=0"):
        rows.loop(lambda s: s, until="v > 3", at_most=0)
    with refused("loop at_most=101"):
        rows.loop(lambda s: s, until="v > 3", at_most=101)
    with refused("loop left='stay'"):
        rows.loop(lambda s: s, until="v > 3", at_most=1, left="stay")
    with refused("the body of a loop with until= returned None"):
        rows.loop(lambda s: None, until="v > 3", at_most=1)
    with refused("loop takes a function"):
        rows.loop("s", until="v > 3", at_most=1)


def test_a_loop_is_unrolled(mb, rows):
    """Its body adds its steps once per round."""
    rows.loop(lambda s: s.with_columns(v="v + 1"), until="v > 3", at_most=3, left="emit")
    kinds = _kinds(mb)
    assert kinds.count("WithColumns") == 3
    assert kinds[-1] == "Union"
    assert len(mb.graph.operators[-1].inputs) == 4


def test_long_loops_of_column_steps_are_cut(mb, rows):
    """Rows are staged after every fourth round, where Spark would compute each from the first."""
    rows.loop(lambda s: s.with_columns(v="v + 1"), until="v > 3", at_most=9, left="emit")
    kinds = [each for each in _kinds(mb) if each in ("WithColumns", "Materialize")]
    assert kinds == [*["WithColumns"] * 4, "Materialize"] * 2 + ["WithColumns"]


def test_long_loops_of_functions_are_not(mb, rows):
    """A task computes what several steps need once, so nothing has to be staged."""
    rows.loop(lambda s: s.where(lambda r: r.v), until=lambda r: r.v > 3, at_most=9, left="emit")
    assert "Materialize" not in _kinds(mb)


def test_routes_of_process(mb, rows):
    """The exchange right before a process without a key says to which vnodes rows go."""
    state, whole = mb.pstate("state", Map(str, int)), mb.pstate("whole", int)

    def one(row, handle):
        pass

    def two(row, first, second):
        pass

    rows.to_all().process(one, states=[state])
    rows.to_vnode("v % 3").process(one, states=[state])
    rows.partition_by(lambda row: row.v).process(one, states=[state])
    rows.to_vnode("v").process(one, key="k", states=[state])
    rows.to_all().process(one, states=[whole])
    steps = [each for each in mb.graph.operators if isinstance(each, Process)]
    assert [(each.route, each.key) for each in steps] == [
        ("all", None), ("number", "__e0"), ("number", "__number"), ("key", "k"), ("key", None),
    ]  # fmt: skip
    assert [each.computed for each in steps] == [(), ("__e0",), ("__number",), (), ()]
    with refused("needs key= to reach state", "to_vnode"):
        rows.process(one, states=[state])
    with refused("not partitioned by the same type"):
        rows.to_all().process(two, states=[state, whole])
