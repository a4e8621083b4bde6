"""Streams: each method adds one operator, and what cannot be is refused on the user's line."""

from __future__ import annotations

import functools

import pytest
from mistakes import refused

import atoll
from atoll.steps.columns.union import Union

ROWS = "user string, tags array<string>"


@pytest.fixture
def topology():
    """A topology and the stream of its one depot."""
    module = atoll.Module("shop")
    mb = module.microbatch("mb")
    return mb, mb.source(module.depot("orders", ROWS))


def test_each_method_adds_one_operator(topology):
    """In the order written; streams are values, so two may go on from one."""
    mb, source = topology
    stream = (
        source.select("user", "tags")
        .with_columns(n="size(tags)")
        .where("n > 0")
        .explode("tags", "tag")
        .map(lambda row: row, emits="user string, tag string")
        .flat_map(lambda row: [row], emits="user string, tag string")
        .map_batches(lambda batches: batches, emits="user string, tag string")
        .hash_by("user")
        .shuffle()
        .to_global()
        .transform(lambda frame: frame)
    )
    stream.union(source.select("user", "tags[0] AS tag"))
    kinds = [type(each).__name__ for each in mb.graph.operators]
    assert kinds == [
        "Source", "Select", "WithColumns", "Where", "Explode", "Map", "FlatMap", "MapBatches",
        "HashBy", "Shuffle", "ToGlobal", "Transform", "Select", "Union",
    ]  # fmt: skip
    assert all(each.place.startswith("test_stream.py:") for each in mb.graph.operators)


def test_explode_names(topology):
    """The element takes the column's place, or the names given."""
    _, source = topology
    assert source.explode("tags").operator.names == ("tags",)
    assert source.explode("`tags`").operator.names == ("tags",)
    assert source.explode("split(user, ',')", "part").operator.names == ("part",)
    assert source.explode("map(1, 2)", "k", "v").operator.names == ("k", "v")
    with refused("one name, or two for a map"):
        source.explode("split(user, ',')")
    with refused("one name, or two for a map"):
        source.explode("tags", "a", "b", "c")


def test_functions_that_cannot_be_called(topology):
    """Arity is checked while declaring, not at the first row."""
    _, source = topology
    with refused("map takes a function, not 3"):
        source.map(3, emits="a int")
    with refused("flat_map calls", "with 1 arguments"):
        source.flat_map(lambda: [3], emits="a int")
    with refused("map_batches calls", "with 1 arguments"):
        source.map_batches(lambda a, b: a, emits="a int")
    with refused("transform takes a function"):
        source.transform("dropna")
    source.map(functools.partial(lambda extra, row: row, 3), emits="a int")
    source.map(lambda row, extra=1: row, emits="a int")
    source.map(dict, emits="a int")


def test_emits_is_ddl(topology):
    """A mistake in it is one of the line that wrote it."""
    _, source = topology
    with refused("nonsense"):
        source.map(lambda row: row, emits="a nonsense")
    with refused("nonsense"):
        source.flat_map(lambda row: [row], emits="a nonsense")
    with refused():
        source.map_batches(lambda batches: batches, emits="")


def test_streams_of_two_topologies_do_not_mix(topology):
    """Not even of one module."""
    mb, source = topology
    other = mb.module.microbatch("other")
    stranger = other.source(mb.module.depots["orders"])
    with refused("stream of another topology"):
        source.union(stranger)
    with refused("union takes streams"):
        source.union("orders")
    assert isinstance(source.union(source).operator, Union)
