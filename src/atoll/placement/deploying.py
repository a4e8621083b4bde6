"""The cluster at the moment a module is deployed: who is there, what runs, and where. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from atoll.placement.fragments import FragmentSpec, with_topology, without_topologies
from atoll.placement.info import ClusterInfo
from atoll.placement.policies.policy import POLICY_DEFAULT
from atoll.placement.reschedule.change import Request
from atoll.placement.reschedule.plan import ReschedulePlan, plan
from atoll.placement.reschedule.replan import replan
from atoll.placement.workers import join, lose


class WorkerReport(msgspec.Struct, frozen=True):
    """A worker as the engine sees it."""

    name: str
    host: str
    units: int


def with_workers(info: ClusterInfo, present: Sequence[WorkerReport]) -> ClusterInfo:
    """The info with exactly these workers running; all others have gone."""
    for each in present:
        info = join(info, each.name, each.host, each.units)
    names = {each.name for each in present}
    for worker in info.workers:
        if worker.name not in names:
            info = lose(info, worker.name)
    return info


def policy_plan(
    info: ClusterInfo,
    sizes: Mapping[int, Sequence[int]] = {},
    counts: Mapping[str, int] = {},
) -> ReschedulePlan:
    """What the policies of the topologies ask for, given the workers that there are.

    Without any worker that is nothing: the topologies wait where they are.

    Args:
        info: The cluster.
        sizes: For a root fragment the bytes of each of its vnodes.
        counts: For a topology of the policy ``load`` how many units the load asks for.
    """
    changes = replan(info, sizes=sizes, counts=counts)
    if not changes:
        return ReschedulePlan({}, {}, {}, {}, 0, info)
    return plan(info, Request(changes, info.revision), sizes, keep_policies=True)


def deployed(
    before: ClusterInfo,
    present: Sequence[WorkerReport],
    topologies: Mapping[str, Sequence[FragmentSpec]],
    policies: Mapping[str, str],
) -> ClusterInfo:
    """The cluster of a module that is deployed now.

    Args:
        before: As it was when the module last ran; :class:`ClusterInfo` if it never did.
        present: The workers.
        topologies: The fragments of each topology.
        policies: Of topologies that are deployed for the first time; the others keep theirs.

    Returns:
        A revision higher than before, or the same when nothing is new.
    """
    info = without_topologies(with_workers(before, present), list(topologies))
    for topology, specs in topologies.items():
        info = with_topology(info, topology, specs)
        policy = info.policies.get(topology, policies.get(topology, POLICY_DEFAULT))
        info = msgspec.structs.replace(info, policies={**info.policies, topology: policy})
    info = policy_plan(info).info
    same = msgspec.structs.replace(info, revision=before.revision)
    return before if same == before else msgspec.structs.replace(same, revision=before.revision + 1)
