"""Holds that every navigator reads and writes stored state as it does nested Python values.

Results printed in Rama's reference stand here as they are printed there.
"""

from __future__ import annotations

import pytest

from atoll import path
from atoll.path import VOID
from atoll.pstate.navigate.changing import changed, transformed
from atoll.pstate.navigate.walker import Walker

P = path.stay()
ODD = path.filter(lambda v: v % 2)
EVEN = path.filter(lambda v: v % 2 == 0)
REFERENCE = {"a0": {"a1": [9, 3, 6], "b1": [0, 8]}, "b0": {"c1": ["x", "y"]}}


def read(value, built):
    """What the path leads to in plain values."""
    return list(Walker().results(value, built))


def backwards(values):
    """A term's function."""
    return list(reversed(values))


@pytest.mark.parametrize(
    ("expected", "value", "built"),
    [
        ([3, 6, 0], REFERENCE, path.key("a0").map_vals().all().filter("<", 7)),
        (
            [9, 3, 6],
            REFERENCE,
            path.map_vals().filter_selected(path.map_vals().all().filter("==", 8)).key("a1").all(),
        ),
        ([[3, 6]], REFERENCE, path.key("a0", "a1").sublist(1, 3)),
        ([1, 2], {"a": 1, "b": 2, "c": 3}, path.multi_path(path.key("a"), path.key("b"))),
        ([(2, 1)], {"a": 1, "b": 2}, path.collect_one(path.key("b")).key("a")),
    ],
    ids=range(5),
)
def test_printed_results_of_reads(expected, value, built):
    """As the reference prints them."""
    assert read(value, built) == expected


@pytest.mark.parametrize(
    ("expected", "value", "built"),
    [
        ([4, 1, 2, 3, 0, 5], [0, 1, 2, 3, 4, 5], path.filtered_list(EVEN).term(backwards)),
        (
            [[9, 2, 7, 4], [5, 6, 3], [8, 1, 10]],
            [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10]],
            path.subselect(path.all().all().filter(lambda v: v % 2)).term(backwards),
        ),
    ],
    ids=range(2),
)
def test_printed_results_of_transforms(expected, value, built):
    """As the reference prints them."""
    assert transformed(value, built) == expected


LISTS = [
    ("nth", [20], [10, 20, 30], P.nth(1), [10, 21, 30]),
    ("nth from the end", [30], [10, 20, 30], P.nth(-1), [10, 20, 31]),
    ("nth of none", [], [10], P.nth(1), [10]),
    ("nth of None", [], None, P.nth(0), None),
    ("nth deeper", [3], [[1], [2, 3]], P.nth(1, 1), [[1], [2, 4]]),
    ("index", [1], [10, 20, 30], P.index(1), [10, 30, 20]),
    ("index of none", [], [10], P.index(3), [10]),
    ("first", [10], [10, 20], P.first(), [11, 20]),
    ("last", [20], [10, 20], P.last(), [10, 21]),
    ("last of none", [], [], P.last(), []),
    ("all", [10, 20], [10, 20], P.all(), [11, 21]),
]


@pytest.mark.parametrize(("expected", "value", "built", "after"), [r[1:] for r in LISTS],
                         ids=[r[0] for r in LISTS])  # fmt: skip
def test_single_elements_of_lists(expected, value, built, after):
    """Reads, and adding one to what they lead to."""
    assert read(value, built) == expected
    assert changed(value, built.term(lambda v: v + 1).steps) == after


@pytest.mark.parametrize(
    ("expected", "value", "built"),
    [
        ([0, 9, 3], [0, 1, 2, 3], path.sublist(1, 3).set([9])),
        ([0, 3], [0, 1, 2, 3], path.sublist(1, 3).delete()),
        ([0, 1, 2], [0, 1, 2, 3], path.sublist(-1, 99).set([])),
        ([0, 7, 1], [0, 1], path.sublist(1, 0).set([7])),
        ([3, 2, 1, 0], [0, 1, 2, 3], path.sublist_dynamic(lambda v: 0, len).term(backwards)),
        ([5, 0, 1], [0, 1], path.before_elem().set(5)),
        ([0, 1, 5], [0, 1], path.after_elem().set(5)),
        ([5], None, path.after_elem().set(5)),
        ([0, 5, 1], [0, 1], path.before_index(1).set(5)),
        ([0, 5, 1], [0, 1], path.before_index(-1).set(5)),
        ([0, 1, 5], [0, 1], path.before_index(2).set(5)),
        ([5, 6, 0, 1], [0, 1], path.beginning().set([5, 6])),
        ([0, 1, 5, 6], [0, 1], path.end().set([5, 6])),
        ([5, 6], None, path.end().set([5, 6])),
        ([0, 2], [0, 1, 2], path.nth(1).delete()),
        ([0, 2], [0, 1, 2], path.all().filter("==", 1).delete()),
        ([2, 0, 1], [0, 1, 2], path.index(2).set(0)),
        (["c", "a", "b"], ["a", "b", "c"], P.indexed_vals().filter("==", (2, "c")).nth(0).set(0)),
        ([1, 11, 21], [0, 10, 20], path.indexed_vals().nth(1).term(lambda v: v + 1)),
        ([30, 20, 10], [10, 20, 30], path.indexed_vals().nth(0).set(0)),
        ([1, 3], [0, 1, 2, 3], path.subselect(path.all().filter(lambda v: v % 2 == 0)).delete()),
        ([0, 1, 3], [0, 1, 2, 3], path.filtered_list(EVEN).set([0])),
    ],
    ids=range(22),
)  # fmt: skip
def test_changes_of_lists(expected, value, built):
    """The list they make; the one given stays as it was."""
    before = repr(value)
    assert transformed(value, built) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    ("expected", "value", "built"),
    [
        ({"a": 1, "b": 9}, {"a": 1}, path.key("b").set(9)),
        ({"a": 1}, {"a": 1}, path.must("b").set(9)),
        ({"b": 9}, None, path.key("b").set(9)),
        ({"b": {"c": 9}}, None, path.key("b", "c").set(9)),
        ({}, {"a": 1}, path.key("a").delete()),
        ({"a": 1}, {"a": 1}, path.key("b").term(lambda v: VOID)),
        ({"b": 1, "c": 2}, {"a": 1, "c": 2}, path.map_key("a").set("b")),
        ({"c": 2}, {"a": 1, "c": 2}, path.map_key("a").delete()),
        ({"a": 1}, {"a": 1}, path.map_key("z").set("b")),
        ({"A": 1, "C": 2}, {"a": 1, "c": 2}, path.keys().term(str.upper)),
        ({1: "a"}, {"a": 1}, path.all().term(lambda e: (e[1], e[0]))),
        ({"c": 2}, {"a": 1, "c": 2}, path.all().filter(lambda e: e[1] == 1).delete()),
        ({"b": 2, "z": 0}, {"a": 1, "b": 2}, path.sub_map("a", "x").set({"z": 0})),
        ({"b": 2}, {"a": 1, "b": 2}, path.sub_map("a").delete()),
        ({"a": 1, "c": 0}, {"a": 1, "b": 2}, path.sorted_range("b").set({"c": 0})),
        ({"a": 1, "b": 3}, {"a": 1, "b": 2}, path.last().nth(1).term(lambda v: v + 1)),
        ({1, 4}, {1, 2}, path.set_elem(2).set(4)),
        ({1, 2}, {1, 2}, path.set_elem(3).set(4)),
        ({1}, {1, 2}, path.set_elem(2).delete()),
        ({1, 2, 3}, {1, 2}, path.void_set_elem().set(3)),
        ({3}, None, path.void_set_elem().set(3)),
        ({2, 9}, {1, 2}, path.subset(1, 7).set({9})),
        ({2, 3}, {1, 2}, path.all().term(lambda v: v + 1)),
        ({1, 8}, {1, 2, 3}, path.sorted_range(2).set([8])),
    ],
    ids=range(24),
)
def test_changes_of_maps_and_sets(expected, value, built):
    """The map or set they make."""
    assert transformed(value, built) == expected


class Words:
    """A navigator to the words of a text."""

    def select(self, value):
        """Each word."""
        return value.split()

    def transform(self, value, follow):
        """The text of what becomes of each."""
        return " ".join(new for word in value.split() if (new := follow(word)) is not VOID)


def test_control():
    """Filters, branches, views, collected values and custom navigators."""
    value = {"a": 1, "b": 2, "c": 3}
    both = path.multi_path(path.key("a"), path.key("c"))
    odd = path.filter(lambda v: v % 2)
    for expected, built in [
        ([], path.stop()),
        ([2], path.if_path(path.must("z"), path.stop(), path.key("b"))),
        ([], path.if_path(path.must("z"), path.key("b"))),
        ([1], path.if_path(path.must("a"), path.key("a"), path.key("b"))),
        ([2], path.map_vals().filter_not_selected(odd)),
        ([[1, 3]], path.subselect(both)),
        ([3], path.view(len)),
        ([5], path.key("b").view(lambda v, n: v + n, 3)),
        ([[]], path.key("z").null_to_list()),
        ([set()], path.key("z").null_to_set()),
        ([2, 2, 4], path.transformed(both.term(lambda v: v + 1)).map_vals()),
        ([([1, 3], 2)], path.collect(both).key("b")),
        ([(7, [1, 3], 2)], path.put_collected(7).collect(both).key("b")),
        ([2], path.put_collected(7).dispense_collected().key("b")),
        ([(1, 2)], path.collect_one(path.key("a")).map_vals().filter("==", 2)
         .is_collected(lambda one: one == 1)),
        ([], path.put_collected(1).is_collected(lambda one: one > 1)),
    ]:  # fmt: skip
        assert read(value, built) == expected, built
    assert read("to be or", path.custom(Words())) == ["to", "be", "or"]
    for expected, built in [
        ({"a": 2, "b": 2, "c": 4}, both.term(lambda v: v + 1)),
        ({"a": 2, "b": 2, "c": 4}, path.map_vals().filter_selected(odd).term(lambda v: v + 1)),
        ({"a": 1, "b": 3, "c": 3}, path.collect_one(path.key("a")).key("b").term(int.__add__)),
        ({"a": 1, "b": 12, "c": 3}, path.key("b").term(lambda v, n: v + n, 10)),
        (value, path.stop().set(1)),
        ({"a": 1, "b": 0, "c": 3}, path.if_path(path.must("z"), path.stop(), path.key("b")).set(0)),
        ({"b": 2}, path.multi_path(path.key("a").delete(), path.key("c").delete())),
        ({"a": 1, "b": 4, "c": 3}, path.key("b").view(lambda v: v + 1).term(lambda v: v + 1)),
        ({"a": 1, "b": 2, "c": 3, "z": [1]}, path.key("z").null_to_list().end().set([1])),
    ]:  # fmt: skip
        assert transformed(value, built) == expected, built
    assert transformed("to be or", path.custom(Words()).filter("!=", "or").term(str.upper)) == (
        "TO BE or"
    )
    assert transformed("to be or", path.custom(Words()).filter("==", "or").delete()) == "to be"


def test_a_function_may_change_what_it_is_given():
    """What was there is not changed with it, so that the difference is still seen."""
    value = {"a": [1], "b": [2]}
    new = transformed(value, path.map_vals().term(lambda v: v.append(3) or v))
    assert new == {"a": [1, 3], "b": [2, 3]}
    assert value == {"a": [1], "b": [2]}
