"""Fragments as they are deployed: ids and places last over deployments, groups share owners."""

from __future__ import annotations

import msgspec
import pytest
from clusters import lose

from atoll.errors import DeclarationError, NotFoundError
from atoll.placement.fragments import FragmentSpec, with_topology, without_topologies
from atoll.placement.info import ClusterInfo
from atoll.placement.mapping import Mapping
from atoll.placement.placement import NOWHERE, placement_of
from atoll.placement.workers import cordon, join

BANK = [
    FragmentSpec("source"),
    FragmentSpec("process debit", ("funds", "sent"), 12),
    FragmentSpec("aggregate seen", ("seen",), 12),
    FragmentSpec("process credit", ("funds", "received"), 12),
    FragmentSpec("aggregate total", ("total",), 1),
    FragmentSpec("aggregate top", ("top",), 1),
]


@pytest.fixture
def info():
    """Two workers with five units."""
    return join(join(ClusterInfo(), "one", "h", 3), "two", "h", 2)


def test_a_new_topology_is_spread_evenly(info):
    """Fragments of shared PStates have one root; singletons go where fewest are."""
    placed = with_topology(info, "bank", BANK)
    assert [(f.id, f.kind, f.root) for f in placed.fragments] == [
        (1, "source", 1),
        (2, "hash", 2),
        (3, "hash", 3),
        (4, "hash", 2),
        (5, "singleton", 5),
        (6, "singleton", 6),
    ]
    even = Mapping.even(12, range(5))
    assert placed.fragment(1).units == (0, 1, 2, 3, 4)
    assert all(placed.fragment(n).mapping == even for n in (2, 3, 4))
    assert [placed.fragment(n).units for n in (5, 6)] == [(0,), (1,)]
    assert [each.id for each in placed.roots()] == [1, 2, 3, 5, 6]
    assert [each.id for each in placed.group(2)] == [2, 4]
    assert placed.next_fragment == 7


def test_more_units_than_vnodes(info):
    """Not every unit gets an actor then."""
    placed = with_topology(info, "t", [FragmentSpec("aggregate p", ("p",), 3)])
    assert placed.fragment(1).owners == (0, 1, 2)


def test_groups_are_found_through_others(info):
    """A step that touches two states joins those that touch one each."""
    specs = [
        FragmentSpec("a", ("p",), 4),
        FragmentSpec("b", ("q",), 4),
        FragmentSpec("c", ("r",), 4),
        FragmentSpec("d", ("q", "p"), 4),
    ]
    placed = with_topology(info, "t", specs)
    assert [each.root for each in placed.fragments] == [1, 1, 3, 1]


def test_a_second_deployment_keeps_ids_and_places(info):
    """What is new gets new ids, what is gone leaves none behind."""
    placed = with_topology(info, "bank", BANK)
    moved = placed.with_owners({2: Mapping.even(12, (1, 4)).units, 5: (3,)})
    again = with_topology(moved, "bank", [*BANK[:5], FragmentSpec("lookup seen", ("seen",), 12)])
    assert [(f.id, f.name) for f in again.fragments][-2:] == [
        (5, "aggregate total"),
        (7, "lookup seen"),
    ]
    assert [again.fragment(n).units for n in (2, 4, 5)] == [(1, 4), (1, 4), (3,)]
    assert again.fragment(7).root == 3
    assert with_topology(again, "bank", [*BANK[:5], again_spec(again)]) == again


def again_spec(info):
    """The spec of the last fragment."""
    last = info.fragments[-1]
    return FragmentSpec(last.name, last.pstates, len(last.owners))


def test_groups_that_merge_take_the_place_of_the_first(info):
    """Any place is right, so one of them is taken."""
    apart = [FragmentSpec("a", ("p",), 4), FragmentSpec("b", ("q",), 4)]
    placed = with_topology(info, "t", apart).with_owners({2: (4, 4, 4, 4)})
    merged = with_topology(placed, "t", [*apart, FragmentSpec("c", ("p", "q"), 4)])
    assert [each.root for each in merged.fragments] == [1, 1, 1]
    assert len({each.owners for each in merged.fragments}) == 1


def test_a_state_that_changes_its_kind_is_placed_anew(info):
    """A hash's owners say nothing about a singleton's."""
    placed = with_topology(info, "t", [FragmentSpec("a", ("p",), 4)])
    again = with_topology(placed, "t", [FragmentSpec("a", ("p",), 1)])
    assert again.fragment(1).owners == (0,)


def test_nothing_new_goes_to_cordoned_or_lost_workers(info):
    """And without any other worker there is nowhere to go."""
    info = cordon(info, [0])
    placed = with_topology(info, "t", [FragmentSpec("a", ("p",), 4)])
    assert placed.fragment(1).units == (3, 4)
    with pytest.raises(DeclarationError, match="no parallel unit"):
        with_topology(lose(info, "two"), "t", [FragmentSpec("a", ("p",), 4)])


def test_topologies_that_are_no_longer_deployed_leave(info):
    """With their policies."""
    both = with_topology(with_topology(info, "bank", BANK), "t", [FragmentSpec("a", ("p",), 4)])
    both = msgspec.structs.replace(both, policies={"bank": "adaptive", "t": "custom"})
    left = without_topologies(both, ["t"])
    assert [each.name for each in left.fragments] == ["a"]
    assert left.policies == {"t": "custom"}


def test_what_an_attempt_needs_to_know(info):
    """Readers, and the owners of each PState; actors run where state is, else where it is read."""
    placed = with_topology(info, "bank", BANK).with_owners({2: Mapping.even(12, (1, 4)).units})
    found = placement_of(placed, "bank")
    assert found.source == (0, 1, 2, 3, 4)
    assert found.mappings["received"].unit_ids() == (1, 4)
    assert found.mappings["total"].units == (0,)
    assert found.units == (0, 1, 2, 3, 4)
    assert placement_of(with_topology(info, "t", BANK[:1]), "t").units == (0, 1, 2, 3, 4)
    assert NOWHERE.units == ()


def test_ids_that_are_not_there(info):
    """The error lists those that are."""
    with pytest.raises(NotFoundError, match="no worker 7") as raised:
        info.worker(7)
    assert raised.value.hint == "there are: 0, 1"
    with pytest.raises(NotFoundError, match="no fragment 7"):
        info.fragment(7)
    assert info.worker_of(99) is None
