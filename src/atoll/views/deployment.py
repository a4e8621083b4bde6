"""What is deployed: a numbered object per module with everything that outlives the process.

It holds the schemas, codecs and counts that cannot change silently, so that a reader in another
process understands the state without the module's code, and a later deployment can be compared
with what is there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from atoll.depot.migration import DepotMigration
from atoll.names import mirrored_name
from atoll.pstate.spec import PStateSpec
from atoll.storage.numbered import NumberedObjects
from atoll.storage.roots import RootStore
from atoll.views.names import is_hidden, not_found


class DepotDeployment(msgspec.Struct, frozen=True):
    """A depot as deployed."""

    ddl: str
    partitions: int
    partition_by: str
    """A field, ``function`` where it is one (see :attr:`by_function`), or empty: spread evenly."""
    migrations: tuple[DepotMigration, ...] = ()
    """What records of older schemas go through, in order."""
    migrated: tuple[str, ...] = ()
    """The ids of all migrations that were ever declared for it."""
    by_function: bool | None = None
    """Whether it is a function; None in those of old releases, which did not tell a function
    from a field of that name."""


class HiddenDeployment(msgspec.Struct, frozen=True):
    """Hidden state as deployed, the fields of :class:`~atoll.topology.kept.hidden.Hidden`."""

    label: str
    kind: str
    belongs: tuple[str, ...]
    means: tuple[tuple[str, str], ...]
    way: str
    text: str
    owners: tuple[str, ...]
    stored: tuple[str, ...]
    name: str | None = None


class FillingDeployment(msgspec.Struct, frozen=True):
    """New PStates that are filled from the past; done when the topology's commits know them."""

    name: str
    """Of the topology that fills them."""
    pstates: tuple[str, ...]
    """Those that users declared."""
    stored: tuple[str, ...]
    """All of them, hidden ones among them."""


class TopologyDeployment(msgspec.Struct, frozen=True):
    """A topology as deployed."""

    vnode_count: int
    depots: list[str]
    pstates: dict[str, Any]
    """For each PState its :class:`PStateSpec` as plain data."""
    starts: dict[str, list[int]]
    """For each depot, by partition, the offset from which the topology reads it."""
    hidden: tuple[HiddenDeployment, ...] | None = None
    """What its steps keep that nobody declared; None: deployed by a release that named such state
    by its position only."""
    meanings: dict[str, dict[str, list[str]]] | None = None
    """For each PState and place which aggregates are folded into it; None: as for ``hidden``."""
    appends_to: tuple[str, ...] = ()
    """The depots that it may append to; those of other modules as ``module.depot``."""
    filling: FillingDeployment | None = None
    """What is filled, or was when this was deployed."""
    fills: int = 0
    """How often PStates of it were filled."""
    sinks: dict[str, dict[str, str]] = {}
    """For each sink what may not change of it, its kind among that."""

    @property
    def own_targets(self) -> tuple[str, ...]:
        """Those of them that are of its own module."""
        return tuple(name for name in self.appends_to if mirrored_name(name) is None)


class MirrorDeployment(msgspec.Struct, frozen=True):
    """What a module reads of another one, and the schema that it counts on."""

    kind: str
    """``depot`` or ``pstate``."""
    module: str
    name: str
    schema: Any
    """DDL of a depot, plain data of a PState."""


class Deployment(msgspec.Struct, frozen=True):
    """A module as deployed."""

    module: str
    deployed_at_ms: int
    depots: dict[str, DepotDeployment]
    topologies: dict[str, TopologyDeployment]
    ticks: dict[str, int] = {}
    """For each tick how many milliseconds are between two."""
    mirrors: dict[str, MirrorDeployment] = {}
    """What it reads of other modules, by ``module.name``."""
    removed: list[str] = []
    """The parts that were ever removed, as ``kind:name``; their names stay taken."""

    def topology_of(self, pstate: str) -> tuple[str, PStateSpec]:
        """The topology that owns a PState, and the PState's spec.

        Raises:
            NotFoundError: When the module has no such PState.
        """
        for name, topology in self.topologies.items():
            if pstate in topology.pstates and not is_hidden(pstate):
                return name, PStateSpec.from_json(topology.pstates[pstate])
        stored = [
            each for topology in self.topologies.values() for each in topology.pstates.items()
        ]
        known = [name for name, data in stored if not PStateSpec.from_json(data).private]
        raise not_found("PState", pstate, known, self.module)


def _deployments(store: RootStore, module: str) -> NumberedObjects:
    """The deployments of a module."""
    return NumberedObjects(store, f"{module}/deployments")


def deployment_number(store: RootStore, module: str) -> int:
    """The number of the newest deployment; 0 for none."""
    return _deployments(store, module).latest() or 0


def latest_deployment(store: RootStore, module: str) -> Deployment | None:
    """The newest deployment, or None."""
    objects = _deployments(store, module)
    number = objects.latest()
    if number is None:
        return None
    return msgspec.msgpack.decode(objects.read(number), type=Deployment)


def save_deployment(store: RootStore, deployment: Deployment) -> None:
    """Make the next deployment object."""
    objects = _deployments(store, deployment.module)
    number = (objects.latest() or 0) + 1
    objects.create(number, msgspec.msgpack.encode(deployment))
