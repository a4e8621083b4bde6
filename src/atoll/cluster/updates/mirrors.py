"""Mirrors between deployed modules: finds what they name, and what an update would break.

The deployment objects say all of it, so it does not matter which process runs a module, or
whether one does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from atoll.cluster.depots import BY_FUNCTION
from atoll.ddl import parse_ddl, to_ddl
from atoll.depot.logs.followed import LogDepot
from atoll.depot.mirror import MirrorDepot, SegmentMirror
from atoll.errors import DeclarationError
from atoll.microbatch.commits.history import CommitHistory, latest_commit
from atoll.microbatch.commits.progress import with_starts
from atoll.microbatch.parcels.box import boxes_for
from atoll.names import RESERVED
from atoll.pstate.spec import PStateSpec
from atoll.schema import from_json, to_json
from atoll.storage.folders import depot_folder
from atoll.views.deployment import (
    Deployment,
    DepotDeployment,
    MirrorDeployment,
    latest_deployment,
)
from atoll.views.filling import still_filling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.module import Module
    from atoll.storage.roots import RootStore
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration


@dataclass(frozen=True)
class Mirrors:
    """What a module mirrors, found and checked.

    Attributes:
        depots: The depots, by ``module.name``.
        pstates: The specs of the PStates, by ``module.name``.
        deployed: What the deployment object says of each.
    """

    depots: dict[str, MirrorDepot] = field(default_factory=dict)
    pstates: dict[str, PStateSpec] = field(default_factory=dict)
    deployed: dict[str, MirrorDeployment] = field(default_factory=dict)


def resolve_mirrors(store: RootStore, module: Module, before: Deployment | None = None) -> Mirrors:
    """Look up what a module mirrors among what is deployed on the root, and the logs that it reads.

    Raises:
        DeclarationError: When it is not there, is private, or has another schema.
        LogError: When a log cannot be asked, or is another than the one that is deployed.
    """
    found = Mirrors()
    _follow_logs(module, before, found)
    targets = {n for each in module.topologies.values() for n in each.graph.appends_to()}
    for name, declared in module.mirrored_depots.items():
        there = _deployed(store, declared).depots.get(declared.mirrored)
        wanted = to_ddl(declared.schema)
        if there is None:
            raise _absent("depot", declared, sorted(_deployed(store, declared).depots))
        if there.ddl != wanted:
            raise _differs("depot", declared, there.ddl, wanted)
        if name in targets:
            _check_target(declared, there)
        folder = depot_folder(store.root, module.name, name)
        found.depots[name] = SegmentMirror(
            folder, declared.schema, there.partitions, there.migrations
        )
        found.deployed[name] = MirrorDeployment("depot", declared.module, declared.mirrored, wanted)
    for name, pstate in module.mirrored_pstates.items():
        specs = _readable(_deployed(store, pstate))
        spec = specs.get(pstate.mirrored)
        if spec is None:
            raise _absent("PState", pstate, sorted(specs))
        filling = still_filling(store, pstate.module, _deployed(store, pstate)).values()
        if any(pstate.mirrored in each.stored for each in filling):
            raise DeclarationError(
                f"the PState {pstate.mirrored!r} of module {pstate.module!r} is being filled",
                hint="mirror it when it has joined its topology",
                declared=pstate.place,
            )
        if spec.partition_by is not None:
            raise DeclarationError(
                f"the PState {pstate.mirrored!r} of module {pstate.module!r} has partition_by=, so "
                "that only its own module's code can find a key",
                hint="mirror a depot of that module, or let it keep a PState without partition_by",
                declared=pstate.place,
            )
        if spec.node != pstate.node:
            raise _differs("PState", pstate, str(to_json(spec.node)), str(to_json(pstate.node)))
        found.pstates[name] = spec
        schema = to_json(pstate.node)
        found.deployed[name] = MirrorDeployment("pstate", pstate.module, pstate.mirrored, schema)
    return found


def _follow_logs(module: Module, before: Deployment | None, found: Mirrors) -> None:
    for name, declared in module.logs.items():
        assert declared.log is not None, "a log is declared as one"
        known = None if before is None else before.mirrors.get(name)
        log = declared.log.follow(name, declared.schema, None if known is None else known.schema)
        assert isinstance(log, LogDepot), "what follows a log is a depot"
        found.depots[name] = log
        found.deployed[name] = MirrorDeployment(declared.log.kind, "", name, log.described)


def _check_target(declared: DepotDeclaration, there: DepotDeployment) -> None:
    """Hold that rows of another module can go to a depot: once they are sent they must fit."""
    if there.partition_by == BY_FUNCTION and there.by_function is not False:
        hint = "append to another depot of that module, from which a topology of its own goes on"
        if there.by_function is None and BY_FUNCTION in parse_ddl(there.ddl).names:
            hint = "if it is partitioned by its field 'function', start that module once with this "
            hint += "release, which tells the two apart; else append to another depot of it"
        raise DeclarationError(
            f"append_to: depot {declared.mirrored!r} of module {declared.module!r} is partitioned "
            "by a function, which only its own module's code can try",
            hint=hint,
            declared=declared.place,
        )


def broken_mirrors(
    store: RootStore,
    module: str,
    depots: Mapping[str, DepotDeclaration],
    pstates: Mapping[str, PStateSpec],
) -> Iterator[str]:
    """What other modules mirror of a module and a new version of it would no longer offer.

    Args:
        store: The root.
        module: The module's name.
        depots: The new version's depots.
        pstates: The new version's PStates.

    Yields:
        For each a sentence that names who mirrors what.
    """
    yield from _with_parcels(store, module, depots)
    for reader in _others(store, module):
        targets = {name for each in reader.topologies.values() for name in each.appends_to}
        for known, mirror in reader.mirrors.items():
            if mirror.module != module:
                continue
            if mirror.kind == "depot":
                why = _broken_depot(mirror, depots.get(mirror.name), appended=known in targets)
            else:
                why = _broken_pstate(mirror, pstates.get(mirror.name))
            if why:
                does = "appends to" if why == _BY_FUNCTION else "mirrors"
                yield f"module {reader.module!r} {does} the {mirror.kind} {mirror.name!r}{why}"


_BY_FUNCTION = ", which would be partitioned by a function that only this module's code can try"


def _broken_depot(
    mirror: MirrorDeployment, depot: DepotDeclaration | None, *, appended: bool
) -> str:
    """What is wrong with a mirrored depot; nothing when all is well."""
    if depot is None:
        return ", which would be gone"
    if to_ddl(depot.schema) != mirror.schema:
        return f" as {mirror.schema!r}"
    return _BY_FUNCTION if appended and callable(depot.partition_by) else ""


def _broken_pstate(mirror: MirrorDeployment, spec: PStateSpec | None) -> str:
    """What is wrong with a mirrored PState; nothing when all is well."""
    if spec is None:
        return ", which would be gone"
    if spec.private:
        return ", which would be private"
    return f" as {mirror.schema}" if spec.node != from_json(mirror.schema) else ""


def _with_parcels(
    store: RootStore, module: str, depots: Mapping[str, DepotDeclaration]
) -> Iterator[str]:
    """The depots that would be gone while rows of other modules wait for them."""
    for name in store.folders(f"{module}/depots"):
        for box in [] if name in depots else boxes_for(store, module, name):
            waiting = box.waiting()
            if waiting.parcels:
                yield (
                    f"{waiting.records} rows of topology {box.sender[1]!r} of module "
                    f"{box.sender[0]!r} wait for depot {name!r}, which would be gone: let this "
                    "module run until it has taken them"
                )


def mirrored_offsets(store: RootStore, module: str) -> dict[str, list[list[int]]]:
    """For each depot of a module what topologies of others would read again at the earliest."""
    needed: dict[str, list[list[int]]] = {}
    for reader in _others(store, module):
        mine = {k: m.name for k, m in reader.mirrors.items() if m.module == module}
        for name, topology in reader.topologies.items():
            known = [depot for depot in topology.depots if depot in mine]
            if not known:
                continue
            last = latest_commit(store, reader.module, name)
            oldest = CommitHistory(store, reader.module, name, last).as_of(last.readable_from)
            ends = with_starts(oldest.commit, topology.starts, known).ends()
            for depot in known:
                needed.setdefault(mine[depot], []).append(ends[depot])
    return needed


def _others(store: RootStore, module: str) -> Iterator[Deployment]:
    """The deployments of the other modules on the root."""
    for other in store.folders(""):
        if other != module and other not in RESERVED["module"]:
            deployment = latest_deployment(store, other)
            if deployment is not None:
                yield deployment


def _readable(deployment: Deployment) -> dict[str, PStateSpec]:
    specs = (
        PStateSpec.from_json(plain)
        for topology in deployment.topologies.values()
        for plain in topology.pstates.values()
    )
    return {spec.name: spec for spec in specs if not spec.private}


def _deployed(store: RootStore, declared: DepotDeclaration | PStateDeclaration) -> Deployment:
    deployment = latest_deployment(store, declared.module)
    if deployment is None:
        raise DeclarationError(
            f"{declared.name!r} is a mirror, but no module {declared.module!r} is deployed here",
            hint="deploy that module first; of two that mirror each other, deploy one without its "
            "mirrors, then the other, then update the first",
            declared=declared.place,
        )
    return deployment


def _absent(
    kind: str, declared: DepotDeclaration | PStateDeclaration, known: list[str]
) -> DeclarationError:
    return DeclarationError(
        f"module {declared.module!r} has no {kind} {declared.mirrored!r} that can be mirrored",
        hint="it has " + (", ".join(known) or "none"),
        declared=declared.place,
    )


def _differs(
    kind: str, declared: DepotDeclaration | PStateDeclaration, there: str, wanted: str
) -> DeclarationError:
    return DeclarationError(
        f"the {kind} {declared.mirrored!r} of module {declared.module!r} has another schema than "
        "its mirror",
        hint=f"it is {there}",
        declared=declared.place,
        mirrored=wanted,
    )
