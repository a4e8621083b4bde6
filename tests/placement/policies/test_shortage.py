"""What a policy asks for and does not get: how much, and what there is to do."""

from __future__ import annotations

import pytest

from atoll.placement.deploying import WorkerReport, policy_plan
from atoll.placement.fragments import FragmentSpec
from atoll.placement.limits import LOCAL_WORKER
from atoll.placement.policies.shortage import shortage
from atoll.placement.registry import Registry, cordon, deployed, meet, view


def cluster(policy, *units, cordoned=(), vnode_count=8):
    """A topology with a source, a hash and a singleton fragment, on workers of so many units."""
    specs = [
        FragmentSpec("source"),
        FragmentSpec("hash", ("p",), vnode_count),
        FragmentSpec("one", ("q",), 1),
    ]
    workers = [WorkerReport(f"w{n}", "h", each) for n, each in enumerate(units)]
    registry = deployed(Registry(), "m", workers[:1], {"mb": specs}, {"mb": policy})
    return policy_plan(view(cordon(meet(registry, "m", workers), cordoned), "m")).info


@pytest.mark.parametrize(
    ("policy", "units", "lacks"),
    [
        ("fixed(4)", (2,), (4, 2, 2)),
        ("fixed(4)", (4,), None),
        ("fixed(4)", (2, 2), None),
        ("fixed(20)", (2,), (20, 2, 18)),  # the source fragment would take them
        ("load(3,9)", (2,), (3, 2, 1)),
        ("load(1,9)", (2,), None),
        ("bounded(4)", (2,), None),
        ("adaptive", (1,), None),
        ("ratio(0.5)", (1,), None),
    ],
)
def test_what_is_missing(policy, units, lacks):
    """Only a policy that names a number can lack units; a singleton never does."""
    found = shortage(cluster(policy, *units), "mb")
    assert (found and (found.asked, found.has, found.missing)) == lacks
    assert found is None or found.hint == "let workers with more units join"


@pytest.mark.parametrize(("asked", "spare", "total"), [(4, 0, 4), (7, 2, 5), (2000, 0, None)])
def test_a_service_on_one_machine_is_told_its_number(asked, spare, total):
    """So many units that what is missing is there; not more than one worker may have."""
    workers = [WorkerReport(LOCAL_WORKER, "h", 2)]
    workers += [WorkerReport("spare", "h", spare)] if spare else []
    specs = {"mb": [FragmentSpec("source")]}
    registry = deployed(Registry(), "m", workers, specs, {"mb": f"fixed({asked})"})
    found = shortage(view(registry, "m"), "mb")
    assert found.local_units == total
    assert (f"atoll worker units {total} " in found.hint) is (total is not None)


def test_cordoned_workers_are_named():
    """They have units that it could use."""
    found = shortage(cluster("fixed(4)", 2, 2, cordoned=[1]), "mb")
    assert (found.has, found.missing, found.cordoned) == (2, 2, (1,))
    assert found.hint.startswith("uncordon worker 1, or ")
