"""Where a module's topologies run when it is deployed, and where their policies want them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from atoll.placement.fragments import FragmentSpec, with_topology, without_topologies
from atoll.placement.info import ClusterInfo
from atoll.placement.policies.policy import POLICY_DEFAULT
from atoll.placement.reschedule.change import Request
from atoll.placement.reschedule.plan import ReschedulePlan, plan
from atoll.placement.reschedule.replan import replan


class WorkerReport(msgspec.Struct, frozen=True):
    """A worker as the engine sees it."""

    name: str
    host: str
    units: int


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


def placed_topologies(
    info: ClusterInfo,
    topologies: Mapping[str, Sequence[FragmentSpec]],
    policies: Mapping[str, str],
) -> ClusterInfo:
    """The cluster with exactly these topologies of a module. The revision stays.

    Args:
        info: As the module sees it, with the workers that there are now.
        topologies: The fragments of each topology.
        policies: Of topologies that are deployed for the first time; the others keep theirs.

    Raises:
        DeclarationError: When a new fragment finds no parallel unit.
    """
    before = info.revision
    info = without_topologies(info, list(topologies))
    for topology, specs in topologies.items():
        info = with_topology(info, topology, specs)
        policy = info.policies.get(topology, policies.get(topology, POLICY_DEFAULT))
        info = msgspec.structs.replace(info, policies={**info.policies, topology: policy})
    return msgspec.structs.replace(policy_plan(info).info, revision=before)
