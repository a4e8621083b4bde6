"""What is deployed: a numbered object per module with everything that outlives the process.

It holds the schemas, codecs and counts that cannot change silently, so that a reader in another
process understands the state without the module's code, and a later deployment is compared with
what is there before anything starts. Pure but for reading and writing the object.
"""

from __future__ import annotations

from typing import Any

import msgspec

from atoll.ddl import to_ddl
from atoll.errors import DeployError, NotFoundError
from atoll.module import Module
from atoll.pstate.spec import PStateSpec
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects

__all__ = ["DepotDeployment", "Deployment", "TopologyDeployment", "check_update", "deployments"]


class DepotDeployment(msgspec.Struct, frozen=True):
    """A depot as deployed."""

    ddl: str
    partitions: int
    partition_by: str
    """A field, ``function``, or empty: spread evenly."""


class TopologyDeployment(msgspec.Struct, frozen=True):
    """A topology as deployed."""

    vnode_count: int
    depots: list[str]
    pstates: dict[str, Any]
    """For each PState its :class:`PStateSpec` as plain data."""
    starts: dict[str, list[int]]
    """For each depot, by partition, the offset from which the topology reads it."""


class Deployment(msgspec.Struct, frozen=True):
    """A module as deployed."""

    module: str
    deployed_at_ms: int
    depots: dict[str, DepotDeployment]
    topologies: dict[str, TopologyDeployment]

    def topology_of(self, pstate: str) -> tuple[str, PStateSpec]:
        """The topology that owns a PState, and the PState's spec.

        Raises:
            NotFoundError: When the module has no such PState.
        """
        for name, topology in self.topologies.items():
            if pstate in topology.pstates:
                return name, PStateSpec.from_json(topology.pstates[pstate])
        known = sorted(n for t in self.topologies.values() for n in t.pstates)
        raise NotFoundError(
            f"module {self.module!r} has no PState {pstate!r}",
            hint="it has " + (", ".join(known) or "none"),
        )


def deployments(store: LocalStore, module: str) -> NumberedObjects:
    """The deployments of a module."""
    return NumberedObjects(store, f"{module}/deployments")


def latest_deployment(store: LocalStore, module: str) -> Deployment | None:
    """The newest deployment, or None."""
    objects = deployments(store, module)
    number = objects.latest()
    if number is None:
        return None
    return msgspec.msgpack.decode(objects.read(number), type=Deployment)


def save_deployment(store: LocalStore, deployment: Deployment) -> None:
    """Make the next deployment object."""
    objects = deployments(store, deployment.module)
    number = (objects.latest() or 0) + 1
    objects.create(number, msgspec.msgpack.encode(deployment))


def check_update(before: Deployment, module: Module, specs: dict[str, PStateSpec]) -> None:
    """Hold that a module can be deployed over what is there.

    Raises:
        DeployError: When something that is fixed for life differs, or something is missing.
    """
    for name, depot in before.depots.items():
        declared = module.depots.get(name)
        if declared is None:
            raise _missing("depot", name, before.module)
        _same("depot", name, "schema", depot.ddl, to_ddl(declared.schema))
        _same("depot", name, "number of partitions", depot.partitions, declared.partitions)
    for topology_name, topology in before.topologies.items():
        new = module.topologies.get(topology_name)
        if new is None:
            raise _missing("topology", topology_name, before.module)
        _same("topology", topology_name, "vnode count", topology.vnode_count, new.vnode_count)
        for name, plain in topology.pstates.items():
            if name not in new.graph.pstates:
                raise _missing("PState", name, before.module)
            _same("PState", name, "schema", plain, specs[name].to_json())


def _missing(kind: str, name: str, module: str) -> DeployError:
    return DeployError(
        f"the {kind} {name!r} is deployed in module {module!r} but no longer declared",
        hint="declare it again; deployed state is never dropped silently",
    )


def _same(kind: str, name: str, what: str, before: object, now: object) -> None:
    if before != now:
        raise DeployError(
            f"the {what} of {kind} {name!r} differs from what is deployed",
            hint="it is fixed for life: keep it, or use another name",
            deployed=before,
            declared=now,
        )
