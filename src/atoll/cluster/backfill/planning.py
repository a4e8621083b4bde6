"""What a new version of a module fills from the past: begun, gone on with, or refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atoll.cluster.backfill.parting import obstacles, parted
from atoll.cluster.deploy.changes import DeployChange, DeployPlan
from atoll.cluster.hidden.changes import BEGINS_EMPTY
from atoll.ddl import to_ddl
from atoll.depot.segments.chain import SegmentChain
from atoll.engine.stores import state_folder
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.objects import GENESIS
from atoll.microbatch.plans.planning import padded
from atoll.pstate.store.environment import shared_environments
from atoll.storage.folders import depot_folder
from atoll.storage.places import Place
from atoll.storage.roots import RootStore
from atoll.views.deployment import FillingDeployment
from atoll.views.filling import still_filling

if TYPE_CHECKING:
    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.topology.graph import Graph
    from atoll.views.deployment import Deployment, TopologyDeployment

_PREFIX = "_fill-"
"""No user's topology is called so."""

_CANCEL = "wait until it has joined; or take it out of the module and remove pstate:{name} first"


def planned_fillings(
    store: RootStore,
    module: str,
    before: Deployment | None,
    bound: Sequence[BoundTopology],
) -> dict[str, FillingDeployment]:
    """What a version fills, by topology, whether or not it can be."""
    found = {}
    filling = still_filling(store, module, before)
    for each in bound:
        name, graph = each.declared.name, each.declared.graph
        known = None if before is None else before.topologies.get(name)
        if known is None:
            continue
        if name in filling and set(filling[name].pstates) & graph.pstates.keys():
            found[name] = filling[name]
            continue
        new = tuple(n for n, p in graph.pstates.items() if p.backfill and n not in known.pstates)
        if new and latest_commit(store, module, name).id:
            made = f"{_PREFIX}{name}-{known.fills + 1}"
            found[name] = FillingDeployment(made, new, _stored(graph, new, made))
    return found


def with_fillings(
    plan: DeployPlan,
    store: RootStore,
    before: Deployment,
    bound: Sequence[BoundTopology],
    fillings: Mapping[str, FillingDeployment],
) -> DeployPlan:
    """The plan, which says what is filled, from where, or why it cannot be."""
    going_on = still_filling(store, plan.module, before)
    changes = list(plan.changes)
    for each in bound:
        name = each.declared.name
        if name not in fillings:
            continue
        known, filling = before.topologies[name], fillings[name]
        graph = each.declared.graph
        if name in going_on:
            changes += _going_on(plan, graph, known, filling)
        else:
            changes += _refused(graph, known, filling)
        left = _left(store, plan.module, name, known, filling, graph)
        lines = dict(_past(store.root, plan.module, each, left))
        changes += [line for line in lines.values() if line.effect == "refused"]
        said = "; ".join(line.detail for line in lines.values() if line.effect == "added")
        hidden = {h.label for h in graph.hidden if set(h.stored) & set(filling.stored)}
        changes = [_said(change, filling, hidden, said) for change in changes]
        if name in going_on:
            detail = f"is being filled, {said} left; not readable before it has joined"
            changes += [DeployChange("kept", "pstate", p, detail) for p in filling.pstates]
    changes += _readers(plan.module, bound, fillings)
    gone = _cancelled(going_on)
    reserved = tuple(part for part in plan.reserved if part not in gone)
    return replace(plan, changes=tuple(changes), reserved=reserved)


def drop_filled(store: RootStore, local: Path, module: str, name: str) -> None:
    """Delete all that a topology that fills had for itself, as far as it is there."""
    stores = state_folder(local / "filling" / name, module)
    shared_environments().close(stores)
    shutil.rmtree(local / "filling" / name, ignore_errors=True)
    store.delete_all(f"{module}/{name}")


def drop_others(
    store: RootStore, local: Path, module: str, fillings: Mapping[str, FillingDeployment]
) -> None:
    """Delete what topologies had for themselves that filled and do no more."""
    kept = {each.name for each in fillings.values()}
    for name in store.folders(module):
        if name.startswith(_PREFIX) and name not in kept:
            drop_filled(store, local, module, name)


# Inside -------------------------------------------------------------------------------------------


def _stored(graph: Graph, pstates: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The PStates that the steps write which fill these."""
    _, fills = parted(graph, pstates, name)
    return tuple(sorted({*fills.pstates, *pstates}))


def _refused(
    graph: Graph, known: TopologyDeployment, filling: FillingDeployment
) -> Iterator[DeployChange]:
    name = ", ".join(filling.pstates)
    for why, hint in obstacles(graph, filling.pstates, known.pstates.keys(), known.starts):
        yield DeployChange("refused", "pstate", name, f"cannot be filled: {why}", hint)
    for each in filling.pstates:
        if not graph.writers(graph.pstates[each]):
            yield DeployChange(
                "refused", "pstate", each, "cannot be filled: no step writes it", "add its steps"
            )


def _going_on(
    plan: DeployPlan, graph: Graph, known: TopologyDeployment, filling: FillingDeployment
) -> Iterator[DeployChange]:
    """What a version may not change of what is being filled."""
    first = filling.pstates[0]
    hint = _CANCEL.format(name=first)
    for each in filling.pstates:
        if each not in graph.pstates:
            why = f"is filled together with {', '.join(p for p in filling.pstates if p != each)}"
            yield DeployChange("refused", "pstate", each, f"{why}: remove all of them, or none")
            return
    if _stored(graph, filling.pstates, filling.name) != filling.stored:
        why = "is being filled, and other steps would lead to it"
        yield DeployChange("refused", "pstate", first, why, hint)
    for change in plan.changes:
        if change.name in filling.pstates and change.effect in ("migrated", "changed"):
            why = f"is being filled, so it cannot be changed: {change.detail}"
            yield DeployChange("refused", "pstate", change.name, why, hint)
    for name, pstate in graph.pstates.items():
        if pstate.backfill and name not in known.pstates:
            why = f"cannot be filled while {', '.join(filling.pstates)} is"
            yield DeployChange("refused", "pstate", name, why, "add it when that has joined")


def _left(  # what is deployed, and what fills
    store: RootStore,
    module: str,
    topology: str,
    known: TopologyDeployment,
    filling: FillingDeployment,
    graph: Graph,
) -> dict[str, list[tuple[int, int]]]:
    """By depot and depot partition the offsets from where it fills on, and where it ends today."""
    done = latest_commit(store, module, filling.name)
    reached = {} if done is GENESIS else done.ends()
    ends = latest_commit(store, module, topology).ends()
    _, fills = parted(graph, filling.pstates, filling.name)
    found = {}
    for depot in fills.depots():
        if depot in known.starts and depot in ends:
            starts = reached.get(depot, known.starts[depot])
            count = len(ends[depot])
            found[depot] = list(zip(padded(starts, count), ends[depot], strict=True))
    return found


def _past(
    root: Place, module: str, bound: BoundTopology, left: Mapping[str, list[tuple[int, int]]]
) -> Iterator[tuple[str, DeployChange]]:
    """For each depot how much is to be filled from it, or what of that is deleted."""
    for name, ranges in left.items():
        declared = bound.declared.graph.depots()[name]
        if declared.log is not None:  # whether all is there is seen when it is read
            yield name, _filled_from(name, ranges)
            continue
        migrations = bound.program.depot_migrations.get(name, ())
        folder = depot_folder(root, module, name)
        chain = SegmentChain(folder, declared.partitions, to_ddl(declared.schema), migrations)
        chain.refresh()
        for partition, ((at, end), first) in enumerate(
            zip(ranges, chain.start_offsets(), strict=True)
        ):
            if first > at and end > at:
                why = (
                    f"the past is not all there: depot partition {name}/{partition} begins at "
                    f"offset {first}, and the topology began at {at}"
                )
                hint = "declare it without backfill=: it begins empty then"
                yield name, DeployChange("refused", "depot", name, why, hint)
                return
        yield name, _filled_from(name, ranges)


def _filled_from(name: str, ranges: Sequence[tuple[int, int]]) -> DeployChange:
    count = sum(end - at for at, end in ranges)
    return DeployChange("added", "depot", name, f"{count:,} records of {name}")


def _said(
    change: DeployChange, filling: FillingDeployment, hidden: Collection[str], said: str
) -> DeployChange:
    if change.effect != "added":
        return change
    if change.kind == "hidden" and change.name in hidden:
        return replace(change, detail=change.detail.replace(BEGINS_EMPTY, "filled with it: "))
    if change.name not in filling.pstates:
        return change
    detail = f"filled from {said}, while the topology goes on; readable when it has caught up"
    return replace(change, detail=detail)


def _readers(
    module: str, bound: Sequence[BoundTopology], fillings: Mapping[str, FillingDeployment]
) -> Iterator[DeployChange]:
    """Topologies that would read what is not readable yet."""
    filled = {name for each in fillings.values() for name in each.stored}
    for each in bound:
        for spec in each.program.mirrors.values():
            if spec.module == module and spec.name in filled:
                yield DeployChange(
                    "refused",
                    "topology",
                    each.declared.name,
                    f"it reads {spec.name}, which is being filled",
                    "add the step that reads it when it has joined",
                )


def _cancelled(going_on: Mapping[str, FillingDeployment]) -> set[str]:
    """The parts that are removed before they ever joined: no commit knows their names."""
    names = {name for each in going_on.values() for name in each.stored}
    return {f"pstate:{name}" for name in names}
