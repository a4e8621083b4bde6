"""The cluster when a module is deployed: workers found, fragments placed, policies followed."""

from __future__ import annotations

from atoll.placement.deploying import WorkerReport, deployed, policy_plan, with_workers
from atoll.placement.fragments import FragmentSpec
from atoll.placement.info import ClusterInfo
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import plan

TOPOLOGIES = {"t": [FragmentSpec("source"), FragmentSpec("aggregate p", ("p",), 8)]}


def _present(**units):
    return [WorkerReport(name, "h", count) for name, count in units.items()]


def test_the_first_deployment_is_revision_one():
    """However many steps it takes to get there."""
    info = deployed(ClusterInfo(), _present(a=2, b=1), TOPOLOGIES, {})
    assert info.revision == 1
    assert info.policies == {"t": "adaptive"}
    assert info.fragment(2).mapping.counts() == {0: 3, 1: 3, 2: 2}


def test_deploying_the_same_again_changes_nothing():
    """The very same object: no revision is made."""
    info = deployed(ClusterInfo(), _present(a=2), TOPOLOGIES, {})
    assert deployed(info, _present(a=2), TOPOLOGIES, {"t": "2"}) is info


def test_a_declared_policy_counts_at_the_first_deployment():
    """Later the one that was set stays."""
    info = deployed(ClusterInfo(), _present(a=4), TOPOLOGIES, {"t": "bounded(2)"})
    assert info.fragment(2).units == (0, 1)
    again = deployed(info, _present(a=4), TOPOLOGIES, {"t": "adaptive"})
    assert again.policies == {"t": "bounded(2)"}


def test_workers_that_did_not_come_back_are_replaced():
    """Also where a person had put things."""
    info = deployed(ClusterInfo(), _present(a=2, b=2), TOPOLOGIES, {})
    info = plan(info, Request({2: UnitChange((), (0, 1))}, info.revision)).info
    again = deployed(info, _present(a=2), TOPOLOGIES, {})
    assert [each.state for each in again.workers] == ["running", "gone"]
    assert again.fragment(2).units == (0, 1)
    assert again.policies == {"t": "custom"}
    assert again.revision == info.revision + 1


def test_a_worker_with_fewer_units_than_before():
    """Its highest units are gone, and what ran there runs on the others."""
    info = deployed(ClusterInfo(), _present(a=4), TOPOLOGIES, {})
    again = deployed(info, _present(a=2), TOPOLOGIES, {})
    assert again.fragment(2).mapping.counts() == {0: 4, 1: 4}
    assert deployed(again, _present(a=4), TOPOLOGIES, {}).fragment(2).units == (0, 1, 4, 5)


def test_while_it_runs_policies_answer_to_workers():
    """The plan says what moves."""
    info = deployed(ClusterInfo(), _present(a=2), TOPOLOGIES, {})
    more = with_workers(info, _present(a=2, b=2))
    planned = policy_plan(more)
    assert planned.vnodes[2] == {0: (4, 2), 1: (4, 2), 2: (0, 2), 3: (0, 2)}
    assert planned.info.policies == {"t": "adaptive"}


def test_without_any_worker_everything_stays_where_it_was():
    """The topologies wait; the first worker that joins gets all of it."""
    info = deployed(ClusterInfo(), _present(a=2), TOPOLOGIES, {})
    alone = with_workers(info, [])
    assert policy_plan(alone).is_noop
    assert policy_plan(with_workers(alone, _present(b=3))).info.fragment(2).units == (2, 3, 4)
