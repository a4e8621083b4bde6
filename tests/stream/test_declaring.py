"""Modules, depots, PStates and targets: what is kept, and every mistake refused on its line."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import List, Map, Set, Struct, agg
from atoll.errors import DeclarationError


@pytest.fixture
def module():
    """A module with one depot."""
    made = atoll.Module("shop")
    made.depot("orders", "user string, item string, cents long")
    return made


@pytest.fixture
def mb(module):
    """An empty topology of that module."""
    return module.microbatch("mb", vnode_count=16)


def test_what_is_declared_is_kept(module, mb):
    """Counts, places and placement follow from the declaration."""
    depot = module.depot("clicks", "url string", partition_by="url", partitions=7)
    assert (depot.partitions, depot.partition_by, depot.schema.names) == (7, "url", ["url"])
    assert module.depot("settings", "k string", is_global=True).partitions == 1
    assert mb.pstate("counts", Map(str, int)).vnode_count == 16
    assert mb.pstate("total", int, initial=0).vnode_count == 1
    assert mb.pstate("rates", Map(str, float), is_global=True).vnode_count == 1
    assert set(module.pstates()) == {"counts", "total", "rates"}
    assert module.pstates()["total"].place.startswith("test_declaring.py:")


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 64, "a/b", "..", "é", 7, None])
def test_bad_names(module, mb, name):
    """Names are folders and parts of URLs."""
    with refused("cannot name a module"):
        atoll.Module(name)
    with refused("cannot name a depot"):
        module.depot(name, "a int")
    with refused("cannot name a topology"):
        module.microbatch(name)
    with refused("cannot name a PState"):
        mb.pstate(name, int)


def test_names_of_atolls_own_folders(module):
    """A module or topology cannot take the folder of something else."""
    with refused("folder of Atoll's own"):
        atoll.Module("local")
    with refused("folder of Atoll's own"):
        module.microbatch("depots")
    assert module.depot("local", "a int").name == "local"


def test_same_name_twice(module, mb):
    """Depots, topologies and PStates are unique in their module."""
    with refused("'orders' is declared twice"):
        module.depot("orders", "a int")
    with refused("'mb' is declared twice"):
        module.microbatch("mb")
    mb.pstate("totals", Map(str, int))
    with refused("'totals' is declared twice"):
        mb.pstate("totals", Map(str, int))
    other = module.microbatch("other")
    with refused("'totals' is declared twice", "'mb' owns it"):
        other.pstate("totals", int)


@pytest.mark.parametrize("count", [0, -1, 32_769, True, 2.0, "4", None])
def test_vnode_counts(module, count):
    """1 to 32,768."""
    with refused("vnodes", "choose 1 to 32768"):
        module.microbatch("x", vnode_count=count)


@pytest.mark.parametrize("count", [0, -1, 4_097, "4", 1.5])
def test_depot_partition_counts(module, count):
    """1 to 4,096."""
    with refused("partitions", "choose 1 to 4096"):
        module.depot("x", "a int", partitions=count)


def test_depot_mistakes(module):
    """Schemas and partitioners are checked where they are declared."""
    with refused("its fields are a, b"):
        module.depot("x", "a int, b int", partition_by="c")
    with refused("cannot be partitioned by 3"):
        module.depot("x", "a int", partition_by=3)
    with refused("nonsense"):
        module.depot("x", "a nonsense")
    with refused():
        module.depot("x", "")


def test_pstate_mistakes(mb):
    """Schemas that cannot be, and initial values where there are none."""
    with refused("list is no type"):
        mb.pstate("x", list)
    with refused("union of several types"):
        mb.pstate("x", int | str)
    with refused("begins empty"):
        mb.pstate("x", Map(str, int), initial={})
    for wrong in [lambda: Map(List(int), int), lambda: Set(Map(int, int)), Struct]:
        with pytest.raises(DeclarationError):
            wrong()


def test_targets_follow_the_schema(mb):
    """Keys and fields alternate as the schema says."""
    state = mb.pstate("s", Map(str, Struct(tags=Set(str), by_day=Map(int, List(int)))))
    target = state["user"]["by_day"]["cents div 100"]
    assert target.text == 's["user"]["by_day"]["cents div 100"]'
    assert [part.text for part in target.key_parts] == ["user", "cents div 100"]
    assert target.node == List(int)
    assert state["user"]["tags"].node == Set(str)


def test_targets_that_cannot_be(mb):
    """Each is refused on the line that wrote it, with what the schema holds there."""
    nested = mb.pstate("nested", Map(str, Map(str, int)))
    with refused('nested["a"]["b"]["c"]', "the schema ends at"):
        nested["a"]["b"]["c"]
    stats = mb.pstate("stats", Map(str, Struct(count=int, total=int)))
    with refused("stored as one value", "aggregate its fields by name"):
        stats["a"]["count"]
    profile = mb.pstate("profile", Map(str, Struct(name=str, tags=Set(str))))
    with refused("no field of that name", "its fields are name, tags"):
        profile["a"]["age"]
    assert profile["a"]["tags"]["x"].is_element
    with refused('profile["a"]["tags"]["x"]["y"]', "the schema ends at", "an element of a set"):
        profile["a"]["tags"]["x"]["y"]
    total = mb.pstate("total", int)
    with refused("nothing can be looked up by key"):
        total["a"]
    for wrong in (None, "", " "):
        with refused("a part is an expression, a value or a field's name"):
            nested[wrong]
        with refused("a part is an expression, a value or a field's name"):
            nested["a"][wrong]


def test_sources(module, mb):
    """A source names a depot of its own module."""
    other = atoll.Module("other").depot("orders", "user string")
    with refused("belongs to module 'other'"):
        mb.source(other)
    with refused("source reads a depot, not 'orders'"):
        mb.source("orders")


def test_changes_columns(mb, module):
    """Keys are named by the caller, by the expressions that wrote them, or by number."""
    nested = mb.pstate("nested", Map(str, Map(str, int)))
    tags = mb.pstate("tags", Map(str, Set(str)))
    source = mb.source(module.depots["orders"])

    def names(stream):
        return stream.operator.key_names

    assert names(nested.changes()) == ("key", "key_2")
    assert names(nested.changes("a", "b")) == ("a", "b")
    counted = source.aggregate(nested["user"]["item"], agg.count())
    assert names(counted.changes()) == ("user", "item")
    computed = source.aggregate(nested["user"]["upper(item)"], agg.count())
    assert names(computed.changes()) == ("key", "key_2")
    same = source.aggregate(nested["user"]["user"], agg.count())
    assert names(same.changes()) == ("key", "key_2")
    tagged = source.aggregate(tags["user"], agg.collect_set("item"))
    assert names(tagged.changes()) == ("user", "item")
    assert names(source.aggregate(mb.pstate("n", int), agg.count()).changes()) == ()
    assert counted.changes().operator.place.startswith("test_declaring.py:")
    with refused("have 2 keys, not 1"):
        nested.changes("a")
    profile = mb.pstate("profile", Map(str, Struct(name=str, tags=Set(str))))
    with refused("no common columns"):
        profile.changes()
