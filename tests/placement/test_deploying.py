"""The cluster when a module is deployed: workers found, fragments placed, policies followed."""

from __future__ import annotations

from atoll.placement.deploying import WorkerReport, policy_plan
from atoll.placement.fragments import FragmentSpec
from atoll.placement.registry import Registry, deployed, meet, view, with_view
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import plan

TOPOLOGIES = {"t": [FragmentSpec("source"), FragmentSpec("aggregate p", ("p",), 8)]}


def _present(**units):
    return [WorkerReport(name, "h", count) for name, count in units.items()]


def _deployed(registry, present, **policies):
    return deployed(registry, "m", present, TOPOLOGIES, policies)


def _fragment(registry, number):
    return view(registry, "m").fragment(number)


def test_the_first_deployment_spreads_the_fragments():
    """Its policy is adaptive where none is declared."""
    registry = _deployed(Registry(), _present(a=2, b=1))
    assert view(registry, "m").policies == {"t": "adaptive"}
    assert _fragment(registry, 2).mapping.counts() == {0: 3, 1: 3, 2: 2}


def test_deploying_the_same_again_changes_nothing():
    """An equal value: no revision is made."""
    registry = _deployed(Registry(), _present(a=2))
    assert _deployed(registry, _present(a=2), t="2") == registry


def test_a_declared_policy_counts_at_the_first_deployment():
    """Later the one that was set stays."""
    registry = _deployed(Registry(), _present(a=4), t="bounded(2)")
    assert _fragment(registry, 2).units == (0, 1)
    again = _deployed(registry, _present(a=4), t="adaptive")
    assert view(again, "m").policies == {"t": "bounded(2)"}


def test_workers_that_did_not_come_back_are_replaced():
    """Also where a person had put things."""
    registry = _deployed(Registry(), _present(a=2, b=2))
    info = view(registry, "m")
    info = plan(info, Request({2: UnitChange((), (0, 1))}, info.revision)).info
    again = _deployed(with_view(registry, "m", info), _present(a=2))
    assert [each.state for each in again.workers] == ["running", "gone"]
    assert _fragment(again, 2).units == (0, 1)
    assert view(again, "m").policies == {"t": "custom"}


def test_a_worker_with_fewer_units_than_before():
    """Its highest units are gone, and what ran there runs on the others."""
    registry = _deployed(Registry(), _present(a=4))
    again = _deployed(registry, _present(a=2))
    assert _fragment(again, 2).mapping.counts() == {0: 4, 1: 4}
    assert _fragment(_deployed(again, _present(a=4)), 2).units == (0, 1, 4, 5)


def test_while_it_runs_policies_answer_to_workers():
    """The plan says what moves."""
    registry = _deployed(Registry(), _present(a=2))
    planned = policy_plan(view(meet(registry, "m", _present(a=2, b=2)), "m"))
    assert planned.vnodes[2] == {0: (4, 2), 1: (4, 2), 2: (0, 2), 3: (0, 2)}
    assert planned.info.policies == {"t": "adaptive"}


def test_without_any_worker_everything_stays_where_it_was():
    """The topologies wait; the first worker that joins gets all of it."""
    alone = meet(_deployed(Registry(), _present(a=2)), "m", [])
    assert policy_plan(view(alone, "m")).is_noop
    joined = meet(alone, "m", _present(b=3))
    assert policy_plan(view(joined, "m")).info.fragment(2).units == (2, 3, 4)
