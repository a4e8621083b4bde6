"""Joins over microbatches as declarations: what they add, and what is refused where."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import Map, agg
from atoll.steps.changing_join.signed import Signed
from atoll.steps.incremental_join.declare import JoinSide
from atoll.stream.drawing import Drawing
from atoll.topology.clocks import clock_of
from atoll.topology.fragments import fragment_specs
from atoll.topology.jobs import cut_into_jobs


@pytest.fixture
def mb():
    """A topology over two depots."""
    module = atoll.Module("house")
    module.depot("bids", "auction long, price long, at timestamp")
    module.depot("auctions", "id long, seller long")
    return module.microbatch("mb", vnode_count=16)


@pytest.fixture
def bids(mb):
    """The left stream."""
    return mb.source(mb.module.depots["bids"])


@pytest.fixture
def auctions(mb):
    """The right stream."""
    return mb.source(mb.module.depots["auctions"])


@pytest.mark.parametrize(
    ("on", "names", "pairs"),
    [
        ("id", ("id",), ()),
        (["a", "b"], ("a", "b"), ()),
        ("left.auction = right.id", (), (("auction", "id"),)),
        ("RIGHT.id == LEFT.`odd name`", (), (("odd name", "id"),)),
        (["a", " left . b=right . c "], ("a",), (("b", "c"),)),
    ],
)
def test_on_names_columns_or_pairs_of_them(bids, auctions, on, names, pairs):
    """As join does, as far as equality goes."""
    step = bids.incremental_join(auctions, on=on, unique="right").operator
    assert (step.names, step.pairs, step.unique) == (names, pairs, "right")
    assert step.keys("left") == (*names, *(left for left, _ in pairs))
    assert step.keys("right") == (*names, *(right for _, right in pairs))


def test_both_sides_meet_in_one_job(mb, bids, auctions):
    """That of the later side; what follows is the next job. The state is the step's own."""
    totals = mb.pstate("totals", Map(int, int))
    summed = auctions.aggregate(totals["id"], agg.count()).changes()
    joined = bids.incremental_join(summed, on="left.auction = right.id")
    joined.aggregate(mb.pstate("seen", Map(int, int))["auction"], agg.count())
    kinds = [[type(each).__name__ for each in job.steps] for job in cut_into_jobs(mb.graph).jobs]
    assert kinds == [["Aggregate", "Changes"], ["ChangingJoin"], ["Aggregate"]]
    (spec,) = [each for each in fragment_specs(mb.graph) if "join" in each.name]
    assert (spec.name, spec.pstates, spec.vnode_count) == (
        "incremental_join _mb-join-bids-totals",
        ("_mb-join-bids-totals",),
        16,
    )


def test_it_is_drawn_with_both_sides_and_its_state(mb, bids, auctions):
    """What marks the right side is not."""
    step = bids.incremental_join(auctions, on="left.auction = right.id").operator
    drawing = Drawing()
    drawing.add(mb.graph)
    assert set(drawing.arrows) == {
        (("depot", "bids"), step),
        (("depot", "auctions"), step),
        (step, ("pstate", "_mb-join-bids-auctions")),
    }
    assert not any(isinstance(key, JoinSide) for key in drawing.boxes)


def test_a_join_of_changes_is_drawn_as_one_step(mb, bids, auctions):
    """Nor what turns the changes into rows."""
    totals = mb.pstate("totals", Map(int, int))
    summed = auctions.aggregate(totals["id"], agg.count()).changes()
    step = bids.incremental_join(summed, on="left.auction = right.id", how="left").operator
    drawing = Drawing()
    drawing.add(mb.graph)
    assert (step, ("pstate", step.states[0].name)) in drawing.arrows
    assert not any(isinstance(key, JoinSide | Signed) for key in drawing.boxes)


def test_rows_that_waited_have_no_watermark(bids, auctions):
    """By that of their side they may be late."""
    marked = bids.with_watermark("at", "1 second")
    assert clock_of(marked.operator) == ("bids.at",)
    joined = marked.incremental_join(auctions, on="left.auction = right.id")
    assert clock_of(joined.operator) == ()


def test_what_cannot_be_is_refused(bids, auctions):
    """Where it stands, with what to do instead."""
    with refused("how='outer join'", "full"):
        bids.incremental_join(auctions, on="id", how="outer join")
    with refused("takes a stream", "lookup"):
        bids.incremental_join("auctions", on="id")
    with refused("no equality", "where"):
        bids.incremental_join(auctions, on="left.at < right.at")
    with refused("no equality"):
        bids.incremental_join(auctions, on="left.at = left.at")
    with refused("on=[]"):
        bids.incremental_join(auctions, on=[])
    with refused("unique='both'"):
        bids.incremental_join(auctions, on="id", unique="both")


def test_what_time_says_is_checked(bids, auctions):
    """Bounds that hold of nothing, times of one side, and what goes with none."""
    timed = bids.with_watermark("at", "1 second")
    with refused("at= says nothing", "within="):
        bids.incremental_join(auctions, on="id", at="at")
    with refused("'soon'", "10 seconds"):
        bids.incremental_join(auctions, on="id", within="soon")
    with refused("holds of no two rows"):
        bids.incremental_join(auctions, on="id", within=("2 minutes", "1 minute"))
    with refused("'id' have none", 'with_watermark("id"'):
        timed.incremental_join(auctions, on="id", within="1 minute", at=("at", "id"))
    with refused("no event time of each side"):
        timed.incremental_join(auctions, on="id", within="1 minute", at=("at", "id", "at"))
    with refused("no unique=", "leave unique= out"):
        bids.incremental_join(auctions, on="id", within="1 minute", unique="right")


def test_changes_are_joined_as_what_they_are_of(mb, bids, auctions):
    """Right behind ``changes()`` or a join whose rows change; not behind a ``select``."""
    totals = mb.pstate("totals", Map(int, int))
    summed = auctions.aggregate(totals["id"], agg.count()).changes()
    changes = bids.incremental_join(summed.materialize(), on="left.auction = right.id").operator
    assert (changes.left, changes.right.keys, changes.right.value) == (None, ("id",), "totals")
    again = bids.incremental_join(auctions, on="left.auction = right.id", how="left")
    third = again.incremental_join(bids, on="auction", how="anti").operator
    assert (third.left.keys, third.right) == (("auction",), None)
    events = bids.incremental_join(summed.select("id", "new"), on="left.auction = right.id")
    assert type(events.operator).__name__ == "IncrementalJoin"
    with refused("unique='right'", "leave unique= out"):
        bids.incremental_join(summed, on="left.auction = right.id", unique="right")
    with refused("no side of changes"):
        bids.incremental_join(summed, on="left.auction = right.id", within="1 minute")


def test_a_query_cannot_join_over_microbatches(mb):
    """It keeps nothing."""
    query = mb.module.query("q", id=int)
    with refused("incremental_join"):
        query.incremental_join(query, on="id")
