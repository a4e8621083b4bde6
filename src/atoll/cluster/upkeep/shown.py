"""What a running module shows of how it is made and where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.cluster.scaling.sizes import pstate_vnodes, vnode_bytes
from atoll.cluster.upkeep.story import story
from atoll.engine.stores import state_folder
from atoll.stream.drawing import described

if TYPE_CHECKING:
    from pathlib import Path

    from atoll.cluster.scaling.scaling import Scaling
    from atoll.microbatch.epochs import Epoch
    from atoll.microbatch.stepping import Stepper
    from atoll.placement.info import ClusterInfo
    from atoll.storage.roots import RootStore
    from atoll.topology.graph import Graph
    from atoll.views.readable import ReadablePState


class ModuleShown:
    """The side of an app that is looked at. Safe from any thread."""

    name: str
    store: RootStore
    local: Path
    epoch: Epoch
    cluster: Scaling
    _loops: dict[str, Stepper]
    _graphs: dict[str, Graph]

    if TYPE_CHECKING:

        def depots(self) -> list[str]:
            """The names of the depots."""
            raise NotImplementedError

        def pstate(self, name: str) -> ReadablePState:
            """A PState of the module."""
            raise NotImplementedError

    def graph(self) -> dict[str, Any]:
        """Its depots, steps and PStates as nodes, and edges between them, as plain data."""
        return described(self._graphs.values(), self.depots())

    def vnodes(self, pstate: str) -> dict[str, list[int]]:
        """For each vnode of a PState its ``bytes`` on disk and the ``units`` that own them."""
        count = self.pstate(pstate).spec.vnode_count
        folder = state_folder(self.local, self.name)
        return pstate_vnodes(self.cluster.info(), pstate, count, folder, self._told_bytes())

    def story(self) -> list[dict[str, Any]]:
        """What happened to it, newest first: lives, revisions, rollbacks, options, failures."""
        return story(self.store, self.name, self.epoch, self._loops)

    def _vnode_bytes(self, info: ClusterInfo) -> dict[int, list[int]]:
        return vnode_bytes(info, state_folder(self.local, self.name), self._told_bytes())

    def _told_bytes(self) -> dict[tuple[str, int], int]:
        """What workers said of their stores, by PState and vnode."""
        told: dict[tuple[str, int], int] = {}
        for loop in self._loops.values():
            told.update(loop.status.vnode_bytes())
        return told
