"""What things say of themselves, and to those who ask them for what they do not have."""

from __future__ import annotations

import copy
import pickle

import pytest
from mistakes import World

import atoll
from atoll import agg
from atoll.errors import AtollError
from atoll.stream.missing import MissingAttributeError
from atoll.testing import TopologyTestDriver


def test_things_are_shown_as_users_know_them():
    """By kind, name and place; no fields of Atoll's own."""
    world = World()
    grouped, changed = (
        world.rows.group_by("k"),
        world.rows.aggregate(world.counts["k"], agg.count()),
    )
    shown = {
        repr(world.module): "<module 'm': topologies mb, second>",
        repr(world.depot): "<depot 'rows' of module 'm'>",
        repr(world.counts): "<PState 'counts' of topology 'mb': Map(str, int)>",
        repr(world.counts["k"]): 'counts["k"]',
        repr(grouped): "<group_by('k')>",
        repr(changed): '<aggregate into counts["k"]>',
        repr(world.module.tick("minutes", "1 minute")): "<tick 'minutes' of module 'm'>",
        repr(world.mb): "<topology 'mb' of module 'm'>",
    }
    assert list(shown) == list(shown.values())
    line = repr(world.rows.select("k"))
    assert line.startswith("<stream of topology 'mb' after select, test_named.py:")
    assert repr(world.query(n=int)).startswith("<stream of query 'asked' after query, ")


def test_what_runs_is_shown_by_name():
    """The module, its depot, its state and its topology, no values and no paths."""
    world = World()
    world.rows.aggregate(world.counts["k"], agg.count())
    with TopologyTestDriver(world.module, engine="inline") as driver:
        app = driver.app
        assert repr(app) == "<app of module 'm': topologies mb, second>"
        assert repr(app.depot("rows")) == "<depot 'rows': 1 partitions>"
        assert repr(app.pstate("counts")) == "<PState 'counts' of topology 'mb': Map(str, int)>"
        assert repr(app.topology("mb")) == "<topology 'mb'>"


@pytest.mark.parametrize("what", ["stream", "grouped", "aggregated"])
def test_what_is_not_there_is_asked_for_as_ever(what):
    """``hasattr``, a default, ``copy`` and ``pickle`` get Python's answers; a call a hint."""
    world = World()
    thing = {
        "stream": world.rows,
        "grouped": world.rows.group_by("k"),
        "aggregated": world.rows.aggregate(world.counts["k"], agg.count()),
    }[what]
    assert not hasattr(thing, "nothing")
    assert getattr(thing, "nothing", 3) == 3
    assert not hasattr(thing, "_repr_png_")
    assert type(copy.copy(thing)) is type(thing)
    with pytest.raises(MissingAttributeError, match="has no 'nothing'") as caught:
        thing.nothing("k")
    assert isinstance(caught.value, AtollError)
    assert caught.value.hint
    assert "test_named.py" in caught.value.context["declared"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), type(again)) == (str(caught.value), MissingAttributeError)
    with pytest.raises(AttributeError) as plain:
        thing.__nothing__  # noqa: B018  # Python asks like this
    assert not isinstance(plain.value, AtollError)


def test_the_package_lists_what_it_has():
    """Also what it loads when it is first used."""
    assert {"Module", "LocalCluster", "agg", "path", "start", "connect"} <= set(dir(atoll))
    assert {"annotations", "importlib", "Any"}.isdisjoint(dir(atoll))


def test_steps_are_called_as_users_wrote_them():
    """Also those that another step needs, and those whose class has another name."""
    world = World()
    before = len(world.mb.graph.operators)
    world.rows.aggregate(world.counts["upper(k)"], agg.sum("n + 1"))
    world.rows.lookup(world.nested["k || 'x'"]["k"], "v")
    world.rows.process(lambda row, counts: None, key="k || 'x'", states=[world.counts])
    world.rows.group_by("n % 2 AS odd").agg(n=agg.sum("n + 1"))
    world.rows.hash_by("k").to_global().with_columns(a="1")
    world.rows.update(world.counts, lambda row: None, key="k")
    titles = [each.title for each in world.mb.graph.operators[before:]]
    assert titles == [
        *("aggregate", "aggregate"),
        *("lookup", "lookup", "lookup"),
        *("process", "process"),
        *("group_by", "agg", "agg"),
        *("hash_by", "to_global", "with_columns"),
        "update",
    ]
