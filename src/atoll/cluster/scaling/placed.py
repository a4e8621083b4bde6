"""A module's running topologies, and where they run: tries placements on, and goes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from atoll.errors import AtollError
from atoll.placement.info import ClusterInfo
from atoll.placement.placement import Placement, placement_of


class Placeable(Protocol):
    """What is asked of a topology here."""

    @property
    def recovering(self) -> bool:
        """Whether it runs nothing yet."""

    @property
    def undisturbed(self) -> bool:
        """Whether it runs, and nothing has failed since its last commit."""

    def place(self, to: Placement, timeout_seconds: float = 60.0, *, trial: bool = True) -> None:
        """Run there from now on."""


class PlacedTopologies:
    """Where the topologies of a module run, which may differ from what stands while it is tried.

    One change at a time: who calls holds the others away.

    Args:
        topologies: By name.
        info: What they run by.
    """

    def __init__(self, topologies: Mapping[str, Placeable], info: ClusterInfo) -> None:
        """All run as it says."""
        self._topologies = topologies
        self.info = info

    def __contains__(self, topology: str) -> bool:
        """Whether the module has it."""
        return topology in self._topologies

    @property
    def names(self) -> list[str]:
        """All of them, in order."""
        return sorted(self._topologies)

    @property
    def starting(self) -> list[str]:
        """Those that run nothing yet."""
        return [name for name, each in self._topologies.items() if each.recovering]

    def undisturbed(self, topology: str) -> bool:
        """Whether it runs, and nothing has failed since its last commit."""
        return self._topologies[topology].undisturbed

    def moving(self, after: ClusterInfo) -> list[str]:
        """Those that run elsewhere then."""
        before = self.info
        return [name for name in self._topologies if _owners(before, name) != _owners(after, name)]

    def runs_on_lost(self, topology: str, after: ClusterInfo) -> bool:
        """Whether it has a unit that is gone then, so that it moves in any case."""
        usable = {unit for worker in after.workers if not worker.gone for unit in worker.units}
        return not usable.issuperset(_units(self.info, topology))

    def try_on(self, after: ClusterInfo, timeout_seconds: float) -> dict[str, AtollError]:
        """Let all that move run there; all, or none.

        Returns:
            Those that stay where they were, and why; all others are there again then.
        """
        moving = self.moving(after)
        refused = self.place(moving, after, timeout_seconds)
        if refused:
            self.go_back([name for name in moving if name not in refused], timeout_seconds)
        return refused

    def go_back(self, names: Sequence[str], timeout_seconds: float) -> None:
        """Run where ``info`` says again."""
        self.place(names, self.info, timeout_seconds, trial=False)

    def place(
        self,
        names: Sequence[str],
        info: ClusterInfo,
        timeout_seconds: float,
        *,
        trial: bool = True,
    ) -> dict[str, AtollError]:
        """Move topologies at once; what those that stay where they are say."""

        def place(name: str) -> AtollError | None:
            try:
                to = placement_of(info, name)
                self._topologies[name].place(to, timeout_seconds, trial=trial)
            except AtollError as error:
                return error
            return None

        if not names:
            return {}
        with ThreadPoolExecutor(len(names)) as threads:
            answers = dict(zip(names, threads.map(place, names), strict=True))
        return {name: error for name, error in answers.items() if error is not None}


def with_fragments(info: ClusterInfo, other: ClusterInfo, topologies: set[str]) -> ClusterInfo:
    """The info with the fragments of these topologies as the other one has them."""
    kept = {each.id: each for each in other.fragments if each.topology in topologies}
    fragments = tuple(kept.get(each.id, each) for each in info.fragments)
    return msgspec.structs.replace(info, fragments=fragments)


def _owners(info: ClusterInfo, topology: str) -> list[tuple[int, tuple[int, ...]]]:
    return [(each.id, each.owners) for each in info.fragments if each.topology == topology]


def _units(info: ClusterInfo, topology: str) -> set[int]:
    return {unit for each in info.fragments if each.topology == topology for unit in each.owners}
