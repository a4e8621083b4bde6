"""Whether a topology has fewer parallel units than its policy asks for. Pure.

A policy is a wish that outlives those who are there: it is stored, and answers to units that come.
So to ask for more than there are is no mistake, but it must not pass for done either.
"""

from __future__ import annotations

import msgspec

from atoll.placement.info import ClusterInfo
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
    """

    policy: str
    asked: int
    has: int
    missing: int
    cordoned: tuple[int, ...] = ()

    @property
    def hint(self) -> str:
        """How to add the units."""
        join = (
            "let workers with more units join (on one machine: start atoll run again with "
            f"--parallelism {self.has + self.missing})"
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
    return Shortage(str(policy), asked, len(units), missing, cordoned)
