"""One registry per root: what each module sees of it, and what concerns them all."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import NotFoundError, RescheduleError, UsageError
from atoll.placement.deploying import WorkerReport, policy_plan
from atoll.placement.fragments import FragmentSpec
from atoll.placement.info import ClusterInfo, Fragment, Worker
from atoll.placement.registry import (
    Registry,
    actors_on,
    cordon,
    deployed,
    leave,
    meet,
    module_of,
    remove,
    taken_over,
    uncordon,
    view,
    whole,
    with_view,
    without,
)
from atoll.placement.reschedule.across import plan_across, policy_across
from atoll.placement.reschedule.change import Request, UnitChange

TOPOLOGIES = {"t": [FragmentSpec("source"), FragmentSpec("aggregate p", ("p",), 8)]}


def _present(**units):
    return [WorkerReport(name, "h", count) for name, count in units.items()]


def two(here, there):
    """Modules a and b, whose processes reach these workers."""
    registry = deployed(Registry(), "a", here, TOPOLOGIES, {})
    return deployed(registry, "b", there, TOPOLOGIES, {})


def test_ids_of_workers_units_and_fragments_are_unique_in_the_root():
    """A worker that two processes reach is one worker, and has its units once."""
    registry = two(_present(w=2, x=1), _present(w=3, y=2))
    assert [(each.id, each.name, each.units) for each in registry.workers] == [
        (0, "w", (0, 1, 3)),
        (1, "x", (2,)),
        (2, "y", (4, 5)),
    ]
    assert [each.id for each in whole(registry).fragments] == [1, 2, 3, 4]
    assert {module_of(registry, n) for n in (1, 2)} == {"a"}
    assert module_of(registry, 4) == "b"
    assert module_of(registry, 5) is None


def test_a_module_runs_on_what_its_own_process_reaches():
    """The first one does not get the unit that only the other one's process has."""
    registry = two(_present(w=2), _present(w=3))
    assert view(registry, "a").live_units() == (0, 1)
    assert view(registry, "b").live_units() == (0, 1, 2)
    assert view(registry, "a").workers[0].units == (0, 1)
    asked = Request({2: UnitChange((2,), ())}, registry.revision)
    with pytest.raises(RescheduleError) as raised:
        plan_across(registry, asked)
    assert raised.value.context["problem"] == "unknown unit"


def test_a_worker_has_gone_when_no_module_reaches_it():
    """For one module it may have gone earlier."""
    registry = two(_present(w=2, x=1), _present(w=2, x=1))
    once = meet(registry, "a", _present(w=2))
    assert view(once, "a").workers[1].state == "gone"
    assert view(once, "b").workers[1].state == whole(once).workers[1].state == "running"
    twice = meet(once, "b", _present(w=2))
    assert whole(twice).workers[1].state == "gone"
    back = meet(twice, "a", _present(w=2, x=1))
    assert back.workers == registry.workers


def test_a_worker_keeps_the_units_that_another_process_still_reaches():
    """It loses the highest when nobody does; ids are never given again."""
    registry = two(_present(w=2), _present(w=4))
    assert meet(registry, "a", _present(w=1)).workers[0].units == (0, 1, 2, 3)
    fewer = meet(registry, "b", _present(w=1))
    assert fewer.workers[0].units == (0, 1)
    assert meet(fewer, "b", _present(w=3)).workers[0].units == (0, 1, 4)
    with pytest.raises(UsageError):
        meet(registry, "a", _present(w=0))


def test_one_cordon_holds_for_all_modules():
    """And an unknown worker is refused, in whole."""
    closed = cordon(two(_present(w=1), _present(w=1)), [0])
    for module in "ab":
        assert view(closed, module).workers[0].state == "cordoned"
    assert uncordon(closed, [0]) == two(_present(w=1), _present(w=1))
    with pytest.raises(NotFoundError):
        cordon(closed, [0, 7])


def test_a_worker_is_removed_when_no_module_runs_anything_there():
    """Whichever module does, it is said with its fragments."""
    registry = two(_present(w=1), _present(w=1, x=1))
    with pytest.raises(RescheduleError) as raised:
        remove(registry, [1])
    assert raised.value.context["fragments"] == {3: [1], 4: [1]}
    left = without(registry, "b")
    assert [each.name for each in remove(left, [1]).workers] == ["w"]
    assert without(left, "b") is left


def test_one_request_reschedules_fragments_of_several_modules():
    """One plan, one next revision; a policy of a topology that moves is custom from then on."""
    registry = two(_present(w=2), _present(w=2))
    asked = Request({2: UnitChange((), (0,)), 4: UnitChange((), (1,))}, registry.revision)
    found = plan_across(registry, asked, {2: [1] * 8, 4: [1] * 8})
    assert found.modules == ("a", "b")
    assert found.plan.vnodes == {2: {0: (4, 0), 1: (4, 8)}, 4: {0: (4, 8), 1: (4, 0)}}
    assert found.plan.bytes_moved == 0
    assert found.after.revision == registry.revision + 1
    assert whole(found.after) == found.plan.info
    assert found.plan.info.policies == {"a/t": "custom", "b/t": "custom"}


@pytest.mark.parametrize(
    ("changes", "behind", "problem"),
    [
        ({2: UnitChange((), (0,)), 9: UnitChange((), (0,))}, 0, "unknown fragment"),
        ({2: UnitChange((), (0,)), 4: UnitChange((), (0, 1))}, 0, "nothing left"),
        ({2: UnitChange((), (0,))}, 1, "stale revision"),
    ],
)
def test_one_request_over_modules_is_granted_in_whole_or_not_at_all(changes, behind, problem):
    """Whichever module the refused fragment is of."""
    registry = msgspec.structs.replace(two(_present(w=2), _present(w=2)), revision=5)
    with pytest.raises(RescheduleError) as raised:
        plan_across(registry, Request(changes, 5 - behind))
    assert raised.value.context["problem"] == problem


def test_a_request_of_nothing_changes_nothing():
    """The very same registry."""
    registry = two(_present(w=2), _present(w=2))
    assert plan_across(registry, Request({}, 0)).after is registry


def test_a_policy_is_set_for_a_topology_of_any_module():
    """The other module's topology of the same name keeps its own."""
    registry = two(_present(w=4), _present(w=4))
    found = policy_across(registry, "b", "t", "fixed(5)")
    assert found.plan.info.policies == {"a/t": "adaptive", "b/t": "fixed(5)"}
    assert found.plan.shortage.missing == 1
    assert policy_across(registry, "b", "t", "adaptive").after is registry
    with pytest.raises(NotFoundError) as raised:
        policy_across(registry, "b", "u", "2")
    assert "a/t, b/t" in raised.value.hint


OLD = ClusterInfo(
    7,
    (Worker(0, "w", "h", (0, 1)), Worker(1, "x", "h", (2, 3), cordoned=True)),
    (
        Fragment(1, "t", "source", "source", 1, (), (1, 3)),
        Fragment(2, "t", "p", "hash", 2, ("p",), (2, 3, 9, 0)),
    ),
    {"t": "custom"},
    2,
    10,
    3,
)
"""A module's own cluster; of its units 9 is no worker's any more."""


def test_what_modules_kept_for_themselves_is_taken_over():
    """Workers by their names, units by their order, fragments with new ids, all in their place."""
    other = msgspec.structs.replace(
        OLD, revision=3, workers=(Worker(5, "x", "h", (4, 6)), Worker(6, "w", "h", (7, 0)))
    )
    first = taken_over(Registry(), "a", OLD)
    registry = taken_over(first, "b", msgspec.structs.replace(other, fragments=()))
    assert registry.revision == 7
    assert view(first, "a").workers == OLD.workers
    assert view(first, "a").fragment(2).owners == (2, 3, 4, 0)
    assert first.next_unit == 5
    assert [(each.units, each.cordoned) for each in registry.workers] == [
        ((0, 1), False),
        ((2, 3), True),
    ]
    assert view(registry, "b").live_units() == (0, 1, 2, 3)
    again = taken_over(first, "b", OLD)
    assert [each.id for each in whole(again).fragments] == [1, 2, 3, 4]
    assert [each.root for each in whole(again).fragments] == [1, 2, 3, 4]
    assert again.next_fragment == 5


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.dictionaries(st.sampled_from("wxy"), st.integers(1, 3), max_size=3),
        ),
        max_size=8,
    )
)
def test_no_unit_is_ever_given_to_two_workers_or_twice(steps):
    """Whatever the processes of two modules reach, one after the other."""
    registry = Registry()
    owner: dict[int, str] = {}
    for module, present in steps:
        registry = meet(registry, module, _present(**present))
        for worker in registry.workers:
            for unit in worker.units:
                assert owner.setdefault(unit, worker.name) == worker.name
        seen = view(registry, module)
        mine = {each.name: len(each.units) for each in seen.workers if not each.gone}
        assert mine == present
        assert meet(registry, module, _present(**present)) == registry


def test_what_runs_on_a_worker_that_is_leaving_moves_as_if_it_had_gone():
    """Under every policy, singletons too; nothing new comes, and a request for it is refused."""
    registry = leave(two(_present(w=2, x=2), _present(w=2, x=2)), [1])
    assert actors_on(registry, [1]) == 8
    for module in "ab":
        seen = view(registry, module)
        assert seen.workers[1].state == "leaving"
        assert seen.schedulable_units() == (0, 1)
        planned = policy_plan(seen)
        assert planned.info.fragment(seen.fragments[1].id).units == (0, 1)
        registry = with_view(registry, module, planned.info)
    assert actors_on(registry, [1]) == 0
    assert policy_plan(view(registry, "a")).is_noop
    with pytest.raises(RescheduleError, match="is leaving"):
        plan_across(registry, Request({2: UnitChange((2,), ())}, registry.revision))
    assert uncordon(registry, [1]).workers[1].state == "running"


def test_a_worker_that_is_leaving_waits_as_long_as_there_is_no_other():
    """Its topologies would stop; they move when somebody joins."""
    alone = leave(deployed(Registry(), "a", _present(w=2), TOPOLOGIES, {}), [0])
    assert policy_plan(view(alone, "a")).is_noop
    joined = meet(alone, "a", _present(w=2, x=1))
    assert policy_plan(view(joined, "a")).info.fragment(2).units == (2,)


def test_a_worker_has_left_when_nothing_runs_there_and_no_process_sees_it():
    """One that has gone with its actors is forgotten when they have moved; its ids go with it."""
    registry = leave(two(_present(w=2, x=2), _present(w=2, x=2)), [1])
    for module in "ab":
        moved = policy_plan(view(registry, module)).info
        registry = meet(with_view(registry, module, moved), module, _present(w=2, x=2))
    assert [each.state for each in registry.workers] == ["running", "leaving"]
    once = meet(registry, "a", _present(w=2))
    assert [each.state for each in once.workers] == ["running", "leaving"]
    left = meet(once, "b", _present(w=2))
    assert [each.name for each in left.workers] == ["w"]
    assert meet(left, "b", _present(w=2, x=1)).workers[1].units == (4,)
    died = meet(leave(two(_present(w=1, x=1), _present(w=1)), [1]), "a", _present(w=1))
    assert [each.state for each in died.workers] == ["running", "gone"]
    back = meet(died, "a", _present(w=1, x=1))
    assert back.workers[1].state == "running"
    moved = with_view(died, "a", policy_plan(view(died, "a")).info)
    assert [each.name for each in meet(moved, "a", _present(w=1)).workers] == ["w"]
