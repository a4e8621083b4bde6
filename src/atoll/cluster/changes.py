"""What a new version of a module changes of what is deployed, before anything is changed.

Pure: it compares a deployment with a declaration. What cannot be is among the changes too, as
*refused*, so that a plan shows everything at once and not only the first mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atoll.cluster.depot_migrations import new_migrations, not_migrated
from atoll.cluster.depots import described_partitioner
from atoll.cluster.migrations import differences
from atoll.ddl import to_ddl
from atoll.depot.evolving import added_columns
from atoll.errors import DeployError, UsageError
from atoll.pstate.spec import PStateSpec

if TYPE_CHECKING:
    from atoll.module import Microbatch, Module
    from atoll.views.deployment import Deployment, TopologyDeployment

__all__ = ["Change", "DeployPlan", "plan_changes"]

Kind = Literal["depot", "tick", "topology", "pstate", "mirror"]
Effect = Literal["added", "removed", "migrated", "changed", "refused"]

_EFFECTS: tuple[Effect, ...] = ("added", "removed", "migrated", "changed", "refused")


@dataclass(frozen=True)
class Change:
    """One change: what happens to which part, and what there is to say about it."""

    effect: Effect
    kind: Kind
    name: str
    detail: str = ""
    hint: str = field(default="", compare=False)
    """What to do about a refusal that another declaration would not change."""

    @property
    def part(self) -> str:
        """As it is named for removal: ``pstate:prices``."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class DeployPlan:
    """What a deployment does. Steps and functions are not compared: they always are the new ones.

    Attributes:
        module: The module's name.
        first: Whether nothing is deployed yet.
        changes: In the order added, removed, migrated, changed, refused.
        reserved: Parts that were removed, now or earlier; their names stay taken.
    """

    module: str
    first: bool
    changes: tuple[Change, ...]
    reserved: tuple[str, ...] = field(default=(), repr=False)

    @property
    def refused(self) -> tuple[Change, ...]:
        """Why it cannot be deployed; empty when it can."""
        return tuple(each for each in self.changes if each.effect == "refused")

    def check(self) -> None:
        """Hold that it can be deployed.

        Raises:
            DeployError: Naming everything that is refused.
        """
        if self.refused:
            reasons = "; ".join(
                f"{each.kind} {each.name!r}: {each.detail}" for each in self.refused
            )
            hints = [each.hint for each in self.refused if each.hint]
            if hints:
                raise DeployError(
                    f"module {self.module!r} cannot be deployed: {reasons}",
                    hint="; ".join(hints),
                    module=self.module,
                )
            raise DeployError(
                f"module {self.module!r} does not fit what is deployed: {reasons}",
                hint="keep what is fixed or use another name; say how values change with "
                "migrated(...); name what shall be removed: remove=['kind:name']",
                module=self.module,
            )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "module": self.module,
            "first": self.first,
            "changes": [
                {"effect": c.effect, "part": c.part, "detail": c.detail} for c in self.changes
            ],
        }

    def __str__(self) -> str:
        """A line per change."""
        lines = [
            f"{each.effect:<9}{each.part}" + (f"  ({each.detail})" if each.detail else "")
            for each in self.changes
        ]
        return "\n".join(lines) or "nothing changes but steps and functions"


def plan_changes(
    before: Deployment | None,
    module: Module,
    specs: Mapping[str, PStateSpec],
    remove: Collection[str] = (),
    broken: Collection[str] = (),
) -> DeployPlan:
    """Compare a module with what is deployed.

    Args:
        before: What is deployed, or None.
        module: The new version.
        specs: Its PStates, bound, with their migrations.
        remove: The parts that may go: ``depot:name``, ``pstate:name``, ``topology:name``.
        broken: What mirrors of other modules have against it, in sentences.

    Raises:
        UsageError: When something to remove is not deployed, or still declared.
    """
    if before is None:
        changes = [Change("added", kind, name) for kind, name in _declared(module)]
        return DeployPlan(module.name, first=True, changes=tuple(changes))
    _check_removed(before, module, remove)
    found = [*_parts(before, module, remove), *_depots(before, module), *_ticks(before, module)]
    for name, topology in before.topologies.items():
        if name in module.topologies:
            found += _topology(topology, module.topologies[name])
        for pstate, plain in topology.pstates.items():
            if pstate in specs:
                found += _pstate(PStateSpec.from_json(plain), specs[pstate])
    found += [Change("refused", "mirror", module.name, why) for why in broken]
    found.sort(key=lambda each: _EFFECTS.index(each.effect))
    gone = {each.part for each in found if each.effect == "removed"}
    reserved = tuple(sorted({*before.removed, *gone}))
    return DeployPlan(module.name, first=False, changes=tuple(found), reserved=reserved)


def _declared(module: Module) -> Iterator[tuple[Kind, str]]:
    for name in module.depots:
        yield "depot", name
    for name in module.ticks:
        yield "tick", name
    for name in module.topologies:
        yield "topology", name
    for name in module.pstates():
        yield "pstate", name
    for name in (*module.mirrored_depots, *module.mirrored_pstates):
        yield "mirror", name


def _deployed(before: Deployment) -> Iterator[tuple[Kind, str]]:
    for name in before.depots:
        yield "depot", name
    for name in before.ticks:
        yield "tick", name
    for name, topology in before.topologies.items():
        yield "topology", name
        for pstate in topology.pstates:
            yield "pstate", pstate
    for name in before.mirrors:
        yield "mirror", name


def _check_removed(before: Deployment, module: Module, remove: Collection[str]) -> None:
    there = {f"{kind}:{name}" for kind, name in _deployed(before) if kind != "mirror"}
    declared = {f"{kind}:{name}" for kind, name in _declared(module)}
    for part in remove:
        if part not in there:
            raise UsageError(
                f"there is no {part!r} to remove",
                hint="deployed are " + ", ".join(sorted(there)),
            )
        if part in declared:
            raise UsageError(
                f"{part!r} is to be removed, but the new version declares it",
                hint="take it out of the module first",
            )


def _parts(before: Deployment, module: Module, remove: Collection[str]) -> Iterator[Change]:
    """What comes and what goes."""
    there, declared = list(_deployed(before)), list(_declared(module))
    owners = {p: t for t, each in before.topologies.items() for p in each.pstates}
    for kind, name in declared:
        if (kind, name) not in there:
            taken = f"{kind}:{name}" in before.removed
            why = "a removed one had this name, and its offsets are remembered: use another"
            yield Change("refused", kind, name, why) if taken else Change("added", kind, name)
    for kind, name in there:
        if (kind, name) in declared:
            continue
        with_topology = kind == "pstate" and f"topology:{owners[name]}" in remove
        if kind == "mirror" or with_topology or f"{kind}:{name}" in remove:
            plain = kind in ("mirror", "tick")
            yield Change("removed", kind, name, "" if plain else "its data is deleted")
        else:
            yield Change(
                "refused", kind, name, f"no longer declared; to delete it, remove {kind}:{name}"
            )


def _depots(before: Deployment, module: Module) -> Iterator[Change]:
    for name, depot in before.depots.items():
        declared = module.depots.get(name)
        if declared is None:
            continue
        ddl, partitioner = to_ddl(declared.schema), described_partitioner(declared)
        added = added_columns(ddl, depot.ddl)
        new, problem = new_migrations(depot, declared), not_migrated(depot, declared)
        if problem is not None:
            yield Change("refused", "depot", name, problem)
        elif new:
            yield Change("migrated", "depot", name, new[0].id)
        elif added:
            detail = f"new columns, null in older records: {', '.join(added)}"
            yield Change("changed", "depot", name, detail)
        elif depot.ddl != ddl:
            detail = (
                "the schema of a depot is fixed, but for columns added at the end that may be "
                f"null, and for migrations: {depot.ddl} is deployed, {ddl} declared"
            )
            yield Change("refused", "depot", name, detail)
        if depot.partitions != declared.partitions:
            detail = f"partitions are fixed: {depot.partitions} deployed, {declared.partitions} "
            yield Change("refused", "depot", name, detail + "declared")
        if depot.partition_by != partitioner:
            detail = f"new records go by {partitioner or 'nothing'}, not {depot.partition_by!r}"
            yield Change("changed", "depot", name, detail)


def _ticks(before: Deployment, module: Module) -> Iterator[Change]:
    for name, every_ms in before.ticks.items():
        declared = module.ticks.get(name)
        if declared is not None and declared.every_ms != every_ms:
            detail = f"the interval is fixed: {every_ms} ms is deployed, {declared.every_ms} ms "
            yield Change("refused", "tick", name, detail + "declared")


def _topology(before: TopologyDeployment, now: Microbatch) -> Iterator[Change]:
    if before.vnode_count != now.vnode_count:
        detail = f"the vnode count is fixed: {before.vnode_count} is deployed, {now.vnode_count} "
        yield Change("refused", "topology", now.name, detail + "declared")
    sources = set(now.graph.depots())
    for depot in sorted(sources - set(before.depots)):
        yield Change("changed", "topology", now.name, f"reads {depot} from where it says")
    for depot in sorted(set(before.depots) - sources):
        yield Change("changed", "topology", now.name, f"no longer reads {depot}")


def _pstate(before: PStateSpec, now: PStateSpec) -> Iterator[Change]:
    if before.topology != now.topology:
        detail = f"it belongs to topology {before.topology!r} for life, not {now.topology!r}"
        yield Change("refused", "pstate", now.name, detail)
        return
    for each in differences(before, now):
        yield Change("refused", "pstate", now.name, each)
    for migration in now.migrations:
        if migration.generation > before.generation:
            at = f" at {'.'.join(migration.position)}" if migration.position else ""
            yield Change("migrated", "pstate", now.name, f"{migration.id}{at}")
    if before.private != now.private:
        yield Change("changed", "pstate", now.name, "private" if now.private else "public")
