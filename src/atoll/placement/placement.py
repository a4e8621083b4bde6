"""Where one topology runs at one revision of the cluster: what an attempt needs to know of it."""

from __future__ import annotations

import msgspec

from atoll.placement.info import ClusterInfo
from atoll.placement.mapping import Mapping


class Placement(msgspec.Struct, frozen=True):
    """Which units run a topology's actors, and what each owns.

    Attributes:
        revision: Of the cluster; 0 before there is one.
        source: The units that read depots, lowest first.
        mappings: For each PState the owner of vnode 0, 1, 2 and so on.
        workers: The worker of each of these units, by its name.
    """

    revision: int = 0
    source: tuple[int, ...] = ()
    mappings: dict[str, Mapping] = {}
    workers: dict[int, str] = {}

    @property
    def units(self) -> tuple[int, ...]:
        """The units that run an actor which owns state, lowest first; else those that read."""
        owning = {unit for mapping in self.mappings.values() for unit in mapping.unit_ids()}
        return tuple(sorted(owning)) or self.source


NOWHERE = Placement()
"""Of a topology that was not placed yet."""


def placement_of(info: ClusterInfo, topology: str) -> Placement:
    """The placement of a topology at the revision of the info."""
    mine = [each for each in info.fragments if each.topology == topology]
    used = {unit for each in mine for unit in each.owners}
    return Placement(
        info.revision,
        next((each.owners for each in mine if each.kind == "source"), ()),
        {name: each.mapping for each in mine for name in each.pstates},
        {unit: worker.name for worker in info.workers for unit in worker.units if unit in used},
    )
