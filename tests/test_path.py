"""Holds that paths are immutable, check their arguments, and travel as JSON."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from types import MethodType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import path
from atoll.errors import PathError
from atoll.path import Path, Step, from_json

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
STEPS = st.sampled_from([
    lambda p, _: p.all(),
    lambda p, _: p.keys(),
    lambda p, _: p.map_vals(),
    lambda p, _: p.first(),
    lambda p, _: p.last(),
    lambda p, _: p.size(),
    lambda p, v: p.key(v),
    lambda p, v: p.must(v),
    lambda p, v: p.field("f"),
    lambda p, v: p.filter("!=", v),
    lambda p, v: p.null_to(v),
    lambda p, v: p.sorted_range(v, None, 3),
    lambda p, v: p.sorted_range_to(v, 2),
    lambda p, v: p.multi_path(path.key(v).size(), path.all()),
])  # fmt: skip


def test_methods_return_longer_paths():
    """The path itself stays as it is, so common beginnings can be shared."""
    start = path.key("a")
    assert start.all().steps == (Step("key", ("a",)), Step("all"))
    assert start.steps == (Step("key", ("a",)),)
    assert path.key("a", "b") == path.key("a").key("b")
    assert path.stay() == Path()
    assert str(path.key("a").filter(">", 1)) == "key('a').filter('>', 1)"


@given(st.lists(st.tuples(STEPS, SCALARS), max_size=6))
def test_json_round_trip(steps):
    """What is sent arrives, through real JSON text."""
    wanted = Path()
    for step, value in steps:
        wanted = step(wanted, value)
    data = json.loads(json.dumps(wanted.to_json()))
    arrived = from_json(data)
    assert arrived.from_outside
    assert arrived.to_json() == wanted.to_json()
    assert _plain(arrived) == _plain(wanted)


def _plain(found):
    """Steps with infinities as the texts that stand for them."""
    texts = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    return [
        (
            step.name,
            [
                _plain(each) if isinstance(each, Path) else texts.get(each, each)
                for each in step.arguments
            ],
        )
        for step in found.steps
    ]


def test_types_that_json_lacks_become_texts():
    """Dates, instants, decimals, bytes and tuples, as the REST interface writes them."""
    instant = dt.datetime(2024, 2, 29, 13, 0, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    built = path.key(dt.date(2024, 2, 29)).key(instant).key(Decimal("1.50"), b"\0\1", (1, b"a"))
    assert built.to_json() == [
        ["key", "2024-02-29"],
        ["key", "2024-02-29T12:00:00Z"],
        ["key", "1.50"],
        ["key", "AAE="],
        ["key", [1, "YQ=="]],
    ]


def test_functions_do_not_travel():
    """A filter by function works here only."""
    with pytest.raises(PathError):
        path.filter(bool).to_json()


@pytest.mark.parametrize(
    "wrong",
    [
        path.key,
        path.must,
        lambda: path.filter("~", 1),
        lambda: path.filter(">"),
        lambda: path.filter(bool, 1),
        lambda: path.sorted_range(limit=-1),
        lambda: path.sorted_range_from_start(2.5),
        lambda: path.multi_path("a"),
        lambda: path.key(object()).to_json(),
    ],
    ids=range(9),
)
def test_wrong_arguments_are_refused(wrong):
    """Where they are written, with a PathError."""
    with pytest.raises(PathError):
        wrong()


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        "key",
        [["key"]],
        [["field", 1]],
        [["all", 1]],
        [["nothing"]],
        ["all"],
        [[]],
        [["filter", "~", 1]],
        [["filter", "__import__"]],
        [["sorted_range", {"from": 1}]],
        [["sorted_range", {"limit": "1"}]],
        [["sorted_range", {"limit": True}]],
        [["multi_path", ["all"]]],
        [["all"]] * 1001,
    ],
    ids=range(16),
)
def test_data_that_is_no_path_is_refused(data):
    """Whatever arrives, a PathError says what was expected."""
    with pytest.raises(PathError) as caught:
        from_json(data)
    assert caught.value.hint


def test_deep_nesting_is_refused():
    """A path cannot exhaust the stack."""
    data = [["all"]]
    for _ in range(100):
        data = [["multi_path", data]]
    with pytest.raises(PathError):
        from_json(data)


def test_every_step_begins_a_path():
    """Each public method of a path is a function of the module, and the other way round."""
    methods = {name for name in dir(Path) if name[0] != "_"}
    beginnings = {name for name, each in vars(path).items() if isinstance(each, MethodType)}
    assert methods - {"steps", "from_outside", "to_json"} == beginnings


def test_paths_show_what_was_written():
    """Also paths within paths."""
    built = path.if_path(path.must("a"), path.nth(-1), path.stay()).multi_path(path.all())
    assert str(built) == "if_path(must('a'), nth(-1), stay()).multi_path(all())"


@pytest.mark.parametrize(
    "built",
    [
        path.nth(1, -2).index(0).sublist(0, -1).before_index(2),
        path.indexed_vals().before_elem().after_elem().beginning().end(),
        path.map_key("a").sub_map("a", "b").set_elem(1).subset(1, 2).void_set_elem(),
        path.filter_selected(path.all()).filter_not_selected(path.key("a").filter(">", 1)),
        path.if_path(path.must("a"), path.key("a")),
        path.if_path(path.must("a"), path.stay(), path.stop()),
        path.subselect(path.filtered_list(path.nth(0))).null_to_list().null_to_set(),
        path.collect(path.all()).collect_one(path.stay()).put_collected([1]).dispense_collected(),
        path.transformed(path.key("a").set(1)).delete(),
        path.sorted_range(1, 2, include_start=False, include_end=True),
        path.sorted_range_to(2, 1, include_end=True),
    ],
    ids=range(11),
)
def test_every_step_without_a_function_travels(built):
    """Through real JSON text, to the same steps."""
    arrived = from_json(json.loads(json.dumps(built.to_json())))
    assert arrived.to_json() == built.to_json()
    assert str(arrived) == str(built)


class Same:
    """A navigator."""

    def select(self, value):
        """To the value."""
        return [value]

    def transform(self, value, follow):
        """What becomes of it."""
        return follow(value)


@pytest.mark.parametrize(
    "built",
    [
        path.term(len),
        path.view(len),
        path.is_collected(bool),
        path.sublist_dynamic(len, len),
        path.custom(Same()),
        path.multi_path(path.filter(bool)),
    ],
    ids=range(6),
)
def test_functions_stay_here(built):
    """Wherever they stand in a path."""
    with pytest.raises(PathError):
        built.to_json()


@pytest.mark.parametrize(
    "wrong",
    [
        path.nth,
        lambda: path.nth("a"),
        lambda: path.nth(True),
        lambda: path.sublist(0, None),
        lambda: path.term(1),
        lambda: path.view("len"),
        lambda: path.custom(len),
        lambda: path.subselect("a"),
        lambda: path.if_path(path.all(), 5),
        lambda: path.sublist_dynamic(0, 1),
        lambda: from_json([["nth", "a"]]),
        lambda: from_json([["nth"]]),
        lambda: from_json([["sublist", 1]]),
        lambda: from_json([["if_path", []]]),
        lambda: from_json([["subselect", "a"]]),
        lambda: from_json([["term", "len"]]),
        lambda: from_json([["custom", "x"]]),
        lambda: from_json([["to_json"]]),
        lambda: from_json([["_add"]]),
        lambda: from_json([["key", *range(500)]]),
        lambda: from_json([["multi_path", *[[["stay"]] * 3] * 3]]),
        lambda: from_json([["multi_path", *[[["all"]] * 50] * 10]]),
    ],
    ids=range(22),
)
def test_wrong_steps_are_refused(wrong):
    """With what to write instead."""
    with pytest.raises(PathError) as caught:
        wrong()
    assert caught.value.hint
