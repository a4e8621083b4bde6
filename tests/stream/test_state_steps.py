"""aggregate, lookup and process: what they project, and the shapes that they refuse."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import List, Map, Set, Struct, agg
from atoll.steps.columns.with_columns import WithColumns
from atoll.topology.sources import Source


@pytest.fixture
def mb():
    """A topology with PStates of every shape."""
    module = atoll.Module("shop")
    module.depot("orders", "user string, item string, cents long")
    made = module.microbatch("mb")
    made.pstate("total", int)
    made.pstate("by_user", Map(str, int))
    made.pstate("by_id", Map(int, int))
    made.pstate("nested", Map(str, Map(str, int)))
    made.pstate("stats", Map(str, Struct(count=int, total=int)))
    made.pstate("tags", Map(str, Set(str)))
    made.pstate("all_tags", Set(str))
    made.pstate("apart", Map(str, Struct(name=str, tags=Set(str))))
    made.pstate("lists", Map(str, List(str)))
    return made


@pytest.fixture
def orders(mb):
    """The stream of the depot."""
    return mb.source(mb.module.depots["orders"])


@pytest.fixture
def states(mb):
    """The PStates, by name."""
    return mb.graph.pstates


def _last(mb):
    return mb.graph.operators[-1]


def test_columns_are_used_as_they_are_and_expressions_computed_once(mb, orders, states):
    """One projection before the step holds what is no plain column."""
    orders.aggregate(states["by_user"]["user"], agg.sum("cents"))
    step = _last(mb)
    assert (step.keys, step.fields[0].columns) == (("user",), ("cents",))
    assert isinstance(step.inputs[0], Source)

    orders.aggregate(states["by_user"]["upper(user)"], agg.max("length(upper(user))"))
    step = _last(mb)
    projection = step.inputs[0]
    assert isinstance(projection, WithColumns)
    assert dict(projection.expressions) == {
        step.keys[0]: "upper(user)",
        step.fields[0].columns[0]: "length(upper(user))",
    }

    orders.aggregate(states["tags"]["upper(user)"], agg.collect_set("upper(user)"))
    step = _last(mb)
    assert step.keys[0] == step.keys[1]
    assert len(step.inputs[0].expressions) == 1

    orders.aggregate(states["by_user"]["user"], agg.count())
    step = _last(mb)
    assert step.fields[0].columns == (None,), "counting rows needs no column"
    assert isinstance(step.inputs[0], Source)


def test_aggregate_takes_one_aggregate_or_fields(orders, states):
    """Not both, not none."""
    with refused("one aggregate, or one per field"):
        orders.aggregate(states["by_user"]["user"])
    with refused("one aggregate, or one per field"):
        orders.aggregate(states["stats"]["user"], agg.count(), total=agg.sum("cents"))


def test_aggregate_shapes(orders, states):
    """A value into a value, an element into a set, fields into a struct."""
    with refused("stored element by element", 'nested["user"]["..."]'):
        orders.aggregate(states["nested"]["user"], agg.count())
    with refused("stored element by element"):
        orders.aggregate(states["by_user"], agg.count())
    with refused("stored element by element"):
        orders.aggregate(states["apart"]["user"], agg.count())
    with refused("holds Set(str)", "collect_set goes into a Set"):
        orders.aggregate(states["tags"]["user"], agg.collect_list("item"))
    with refused("which agg.collect_set(item) cannot fold into"):
        orders.aggregate(states["lists"]["user"], agg.collect_set("item"))
    with refused("holds no struct of values"):
        orders.aggregate(states["by_user"]["user"], total=agg.sum("cents"))
    with refused("has no field 'totl'", "its fields are count, total"):
        orders.aggregate(states["stats"]["user"], totl=agg.sum("cents"))
    with refused("has no field 'nam'", "its fields are"):
        orders.aggregate(states["apart"]["user"], nam=agg.last("item"))
    with refused("takes aggregates, not 'item'"):
        orders.aggregate(states["by_user"]["user"], "item")


def test_a_pstate_has_one_topology(mb, states):
    """Steps of another one are told who owns it."""
    other = mb.module.microbatch("other").source(mb.module.depots["orders"])
    with refused("'other' uses the PState 'by_user'", "topology 'mb' of module 'shop' owns"):
        other.aggregate(states["by_user"]["user"], agg.count())
    found = other.lookup(states["by_user"]["user"], "n").operator
    assert (found.title, found.reads, found.placed_by) == ("lookup", (states["by_user"],), ())
    with refused("process in topology 'other'"):
        other.process(lambda row, state: None, key="user", states=[states["by_user"]])


def test_lookup_reads_values(mb, orders, states):
    """One value per row, be it all that lies below a key."""
    orders.lookup(states["by_user"]["user"], "n")
    assert (_last(mb).keys, _last(mb).column) == (("user",), "n")
    orders.lookup(states["total"], "total")
    assert _last(mb).keys == ()
    orders.lookup(states["tags"]["user"]["item"], "tagged")
    assert _last(mb).keys == ("user", "item")
    with refused("nested is partitioned"):
        orders.lookup(states["nested"], "n")


def test_process_needs_states_that_its_key_reaches(mb, orders, states):
    """One key for all of them, or none for global ones."""

    def one(row, state):
        pass

    def two(row, first, second):
        pass

    with refused("process without states"):
        orders.process(lambda row: None, key="user", states=[])
    with refused("needs key= to reach by_user"):
        orders.process(one, states=[states["by_user"]])
    with refused("not partitioned by the same type"):
        orders.process(two, key="user", states=[states["by_user"], states["by_id"]])
    with refused("not partitioned by the same type"):
        orders.process(two, key="user", states=[states["by_user"], states["total"]])
    with refused("calls one with 3 arguments"):
        orders.process(one, key="user", states=[states["by_user"], states["nested"]])
    orders.process(two, key="user", states=[states["all_tags"], states["by_user"]])
    orders.process(one, states=[states["total"]])
    assert _last(mb).key is None


def test_process_without_emits_ends_the_stream(orders, states):
    """A step after it would never see a row."""

    def one(row, state):
        pass

    ended = orders.process(one, key="user", states=[states["by_user"]])
    with refused("follows a process that emits no rows", "emits="):
        ended.select("user")
    with refused("follows a process that emits no rows"):
        ended.aggregate(states["total"], agg.count())
    orders.process(one, key="user", states=[states["by_user"]], emits="a int").select("a")


@pytest.mark.parametrize("given", ["by_user", None, 7])
def test_what_is_no_pstate_is_refused(orders, states, given):
    """By every step of state, on its line; a name is the likeliest mistake."""
    with refused(f"process takes a PState, not {given!r}", "not its name"):
        orders.process(lambda row, state: None, key="user", states=[given])
    with refused("states= is a list of PStates"):
        orders.process(lambda row, state: None, key="user", states=given)
    with refused(f"update takes a PState, not {given!r}"):
        orders.update(given, lambda row: None, key="user")
    with refused(f"aggregate takes a PState, not {given!r}"):
        orders.aggregate(given, agg.count())
    with refused(f"lookup takes a PState, not {given!r}"):
        orders.lookup(given, "x")
    with refused("process takes a PState"):
        orders.process(lambda row, state: None, key="user", states=[states["by_user"]["user"]])
    with refused("states= is a list of PStates, not 'by_user'", "states=[...]"):
        orders.process(lambda row, state: None, key="user", states=states["by_user"])
