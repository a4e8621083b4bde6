"""Vnode mappings: even, contiguous, covering; their views, groups and JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import DeclarationError, UsageError
from atoll.placement.mapping import Mapping


@st.composite
def even_mappings(draw: st.DrawFn) -> tuple[int, list[int], Mapping]:
    """A vnode count, unit ids, and the even mapping of them."""
    units = draw(st.lists(st.integers(0, 500), min_size=1, max_size=40, unique=True))
    count = draw(st.integers(len(units), 600))
    return count, units, Mapping.even(count, units)


MAPPINGS = st.lists(st.integers(0, 9), min_size=1, max_size=80).map(
    lambda units: Mapping(tuple(units))
)


@given(even_mappings())
def test_even_mappings_are_even_contiguous_and_covering(drawn: tuple) -> None:
    """Sizes differ by one at most, larger ones first; each unit owns one run, in id order."""
    count, units, mapping = drawn
    assert count == mapping.vnode_count == len(mapping.units)
    assert list(mapping.units) == sorted(mapping.units)
    assert tuple(sorted(units)) == mapping.unit_ids()
    sizes = list(mapping.counts().values())
    quotient, rest = divmod(count, len(units))
    assert sizes == [quotient + 1] * rest + [quotient] * (len(units) - rest)


def test_the_example_of_ten_over_three() -> None:
    """Ten vnodes over three units, whatever order the units are named in."""
    assert Mapping.even(10, [2, 0, 1]).units == (0, 0, 0, 0, 1, 1, 1, 2, 2, 2)


@given(MAPPINGS)
def test_views_agree(mapping: Mapping) -> None:
    """Owner, vnodes and counts say the same; every vnode has exactly one owner."""
    owned = {unit: mapping.vnodes(unit) for unit in mapping.unit_ids()}
    assert mapping.counts() == {unit: len(vnodes) for unit, vnodes in owned.items()}
    assert sorted(v for vnodes in owned.values() for v in vnodes) == list(
        range(mapping.vnode_count)
    )
    for unit, vnodes in owned.items():
        assert list(vnodes) == sorted(vnodes)
        assert {mapping.owner(vnode) for vnode in vnodes} == {unit}
    assert mapping.vnodes(12_345) == ()


@given(MAPPINGS)
def test_json_round_trip(mapping: Mapping) -> None:
    """Through real JSON text."""
    assert mapping == Mapping.from_json(json.loads(json.dumps(mapping.to_json())))


def test_json_is_run_length_encoded() -> None:
    """A mapping of 256 vnodes stays a short line."""
    assert Mapping.even(256, [7, 9, 11]).to_json() == [[7, 86], [9, 85], [11, 85]]


@given(MAPPINGS, st.integers(1, 100))
def test_groups_cover_all_vnodes_evenly(mapping: Mapping, count: int) -> None:
    """Each vnode is scanned once; groups differ by one vnode at most and are never empty."""
    groups = mapping.groups(count)
    assert min(count, mapping.vnode_count) == len(groups)
    assert sorted(v for group in groups for v in group) == list(range(mapping.vnode_count))
    sizes = [len(group) for group in groups]
    assert max(sizes) - min(sizes) <= 1
    assert all(list(group) == sorted(group) for group in groups)


@given(even_mappings())
def test_groups_of_an_even_mapping_are_the_units_own(drawn: tuple) -> None:
    """As many groups as units: each scan reads what one unit owns."""
    _, units, mapping = drawn
    assert mapping.groups(len(units)) == [mapping.vnodes(unit) for unit in mapping.unit_ids()]


@pytest.mark.parametrize(
    ("count", "units"), [(4, []), (4, [1, 1]), (4, [1, 2, 3, 4, 5]), (4, [-1]), (4, ["a"])]
)
def test_mappings_that_cannot_be(count: int, units: list) -> None:
    """No units, one twice, more than vnodes, or no ids."""
    with pytest.raises(UsageError):
        Mapping.even(count, units)


@pytest.mark.parametrize("data", [None, 3, {}, [[1]], [[1, 0]], [[1, -2]], [["a", 1, 2]], []])
def test_data_that_is_no_mapping(data: object) -> None:
    """Refused, never half read."""
    with pytest.raises(DeclarationError):
        Mapping.from_json(data)


def test_questions_that_cannot_be() -> None:
    """A vnode that is not there, groups that are none, vnodes that are none."""
    mapping = Mapping.even(4, [1])
    for vnode in (-1, 4):
        with pytest.raises(UsageError, match="no vnode"):
            mapping.owner(vnode)
    with pytest.raises(UsageError):
        mapping.groups(0)
    with pytest.raises(DeclarationError):
        Mapping(())
