"""Whether a module can be deployed over what its root already holds."""

from __future__ import annotations

from atoll.cluster.migrations import differences
from atoll.cluster.mirrors import broken_mirrors
from atoll.ddl import to_ddl
from atoll.errors import DeployError
from atoll.module import Module
from atoll.pstate.spec import PStateSpec
from atoll.storage.local import LocalStore
from atoll.views.deployment import Deployment

__all__ = ["check_mirrors", "check_update"]


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
            found = differences(PStateSpec.from_json(plain), specs[name])
            if found:
                raise DeployError(
                    f"PState {name!r} differs from what is deployed: {'; '.join(found)}",
                    hint="keep it, use another name, or say how its values change: "
                    f"{name}.migrated(id, function)",
                )


def check_mirrors(store: LocalStore, module: Module, specs: dict[str, PStateSpec]) -> None:
    """Hold that what other modules mirror of a module stays as they know it.

    Raises:
        DeployError: Naming who mirrors what.
    """
    ddls = {name: to_ddl(depot.schema) for name, depot in module.depots.items()}
    broken = list(broken_mirrors(store, module.name, ddls, specs))
    if broken:
        raise DeployError(
            f"the update would break mirrors: {'; '.join(broken)}",
            hint="update those modules first, so that they no longer mirror it",
        )


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
