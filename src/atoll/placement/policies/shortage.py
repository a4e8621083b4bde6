"""Whether a topology has fewer parallel units than its policy asks for. Pure.

A policy is a wish that outlives those who are there: it is stored, and answers to units that come.
So to ask for more than there are is no mistake, but it must not pass for done either.
"""

from __future__ import annotations

import msgspec

from atoll.placement.info import ClusterInfo
from atoll.placement.limits import LOCAL_WORKER, UNITS_MAX
from atoll.placement.policies.policy import POLICY_DEFAULT, Fixed, Load, parse_policy


class Shortage(msgspec.Struct, frozen=True):
    """What a policy asks for and does not get.

    Attributes:
        policy: The topology's policy, which is stored.
        asked: How many units it asks for.
        has: How many the topology has of them.
        missing: How many more it would take: fewer than the difference where there are fewer
            vnodes than units asked for.
        cordoned: Workers that could give units if they were not cordoned, by id.
        local_units: How many units the worker must have that a service on one machine is, to
            give what is missing; None where there is no such worker, or it gives none.
    """

    policy: str
    asked: int
    has: int
    missing: int
    cordoned: tuple[int, ...] = ()
    local_units: int | None = None

    @property
    def hint(self) -> str:
        """How to add the units."""
        join = "let workers with more units join"
        if self.local_units is not None:
            join = (
                f"atoll worker units {self.local_units} (cluster.set_units({self.local_units}) in "
                "Python) gives this service so many while it runs"
            )
        if not self.cordoned:
            return join
        return f"uncordon worker {', '.join(map(str, self.cordoned))}, or {join}"


def shortage(info: ClusterInfo, topology: str) -> Shortage | None:
    """What a topology lacks by its policy; None when it has all that was asked for.

    Only policies that name a number can lack something: ``fixed``, and ``load`` by its fewest.
    ``bounded`` has all that it asks for with fewer units.
    """
    policy = parse_policy(info.policies.get(topology, POLICY_DEFAULT), custom_allowed=True)
    match policy:
        case Fixed(count) | Load(count, _):
            asked = count
        case _:
            return None
    lacking = []
    for root in info.roots(topology):
        if root.kind != "singleton":
            wanted = asked if root.kind == "source" else min(asked, len(root.owners))
            lacking.append((wanted - len(root.units), root.units))
    missing, units = max(lacking, default=(0, ()))
    if missing <= 0:
        return None
    cordoned = tuple(
        each.id
        for each in info.workers
        if each.state == "cordoned" and not {*each.units} <= {*units}
    )
    return Shortage(str(policy), asked, len(units), missing, cordoned, _local(info, missing))


def _local(info: ClusterInfo, missing: int) -> int | None:
    """How many units the local worker must have to give so many more than it has."""
    local = next((each for each in info.workers if each.name == LOCAL_WORKER), None)
    if local is None or local.state != "running" or len(local.units) + missing > UNITS_MAX:
        return None
    return len(local.units) + missing
