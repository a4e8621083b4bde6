"""What a new version of a module changes of what is deployed, before anything is changed.

Pure: it compares a deployment with a declaration. What cannot be is among the changes too, as
*refused*, so that a plan shows everything at once and not only the first mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atoll.cluster.depots import described_partitioner
from atoll.cluster.hidden.changes import hidden_changes
from atoll.cluster.hidden.state import hidden_of_topology
from atoll.cluster.sinks.declared import differences as differences_of_sink
from atoll.cluster.sinks.declared import signature_of
from atoll.cluster.updates.depot_migrations import new_migrations, not_migrated
from atoll.cluster.updates.meaning import OWN_PSTATE, meaning_changes
from atoll.cluster.updates.migrations import differences
from atoll.ddl import to_ddl
from atoll.depot.evolution import added_columns
from atoll.errors import DeployError, UsageError
from atoll.pstate.spec import PStateSpec
from atoll.steps.write_to.declare import sinks_of
from atoll.topology.kept.meanings import meanings_of

if TYPE_CHECKING:
    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.cluster.hidden.adoption import Match
    from atoll.module import Microbatch, Module
    from atoll.topology.declared import DepotDeclaration
    from atoll.views.deployment import Deployment, DepotDeployment, TopologyDeployment


Kind = Literal["depot", "log", "tick", "topology", "pstate", "sink", "hidden", "mirror"]
Effect = Literal["added", "removed", "migrated", "kept", "changed", "refused"]

_EFFECTS: tuple[Effect, ...] = ("added", "removed", "migrated", "kept", "changed", "refused")
_GONE = {"mirror": "", "tick": "", "log": "", "sink": "what waits for it is not written any more"}
_KEEP = "declare it as it is deployed, or declare another one under a new name"
_MIGRATE = "declare it as it is deployed, or say with migrated(...) how what is stored changes"


@dataclass(frozen=True)
class DeployChange:
    """One change: what happens to which part, and what there is to say about it."""

    effect: Effect
    kind: Kind
    name: str
    detail: str = ""
    hint: str = field(default="", compare=False)
    """Of what is refused what to do, where that is more than for all."""

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
        changes: In the order added, removed, migrated, kept, changed, refused. *Kept* is hidden
            state, which the steps keep by themselves.
        reserved: Parts that were removed, now or earlier; their names stay taken.
    """

    module: str
    first: bool
    changes: tuple[DeployChange, ...]
    reserved: tuple[str, ...] = field(default=(), repr=False)

    @property
    def refused(self) -> tuple[DeployChange, ...]:
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
            raise DeployError(
                f"module {self.module!r} does not fit what is deployed: {reasons}",
                hint="; ".join(dict.fromkeys(each.hint or _KEEP for each in self.refused)),
                module=self.module,
            )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "module": self.module,
            "first": self.first,
            "changes": [
                {"effect": c.effect, "part": c.part, "detail": c.detail}
                | ({"hint": c.hint} if c.hint else {})
                for c in self.changes
            ],
        }

    def __str__(self) -> str:
        """A line per change."""
        notes = ["; ".join(filter(None, (each.detail, each.hint))) for each in self.changes]
        lines = [
            f"{each.effect:<9}{each.part}" + (f"  ({note})" if note else "")
            for each, note in zip(self.changes, notes, strict=True)
        ]
        if all(each.effect == "kept" for each in self.changes):
            lines.insert(0, "nothing changes but steps and functions")
        return "\n".join(lines)


def plan_changes(
    before: Deployment | None,
    bound: Sequence[BoundTopology],
    module: Module,
    specs: Mapping[str, PStateSpec],
    remove: Collection[str] = (),
    broken: Collection[str] = (),
) -> DeployPlan:
    """Compare a module with what is deployed.

    Args:
        before: What is deployed, or None.
        bound: The topologies of the new version.
        module: The new version.
        specs: Its PStates, bound, with their migrations.
        remove: The parts that may go: ``depot:name``, ``pstate:name``, ``topology:name``.
        broken: What mirrors of other modules have against it, in sentences.

    Raises:
        UsageError: When something to remove is not deployed, or still declared.
    """
    if before is None:
        changes = [DeployChange("added", kind, name) for kind, name in _declared(module)]
        changes += [
            DeployChange("added", "hidden", line.label, line.detail)
            for each in bound
            for line in hidden_changes(each.hidden, ())
        ]
        return DeployPlan(module.name, first=True, changes=tuple(changes))
    hidden = _hidden(before, bound)
    _check_removed(before, module, hidden, remove)
    found = [*_parts(before, module, remove), *_depots(before, module), *_ticks(before, module)]
    deleted = []
    for name, matches in hidden.items():
        goes = name not in module.topologies and f"topology:{name}" in remove
        for each in hidden_changes(matches, remove, with_topology=goes):
            found.append(DeployChange(each.effect, "hidden", each.label, each.detail, each.hint))
            deleted += [f"pstate:{stored}" for stored in each.stored]
    labels = {
        stored: match.hidden.label
        for matches in hidden.values()
        for match in matches
        if match.hidden is not None
        for stored in match.hidden.stored
    }
    meanings = {p: m for each in bound for p, m in meanings_of(each.declared.graph.written).items()}
    for name, topology in before.topologies.items():
        if name in module.topologies:
            found += _topology(topology, module.topologies[name])
        found += _sinks(name, topology, module)
        for pstate, plain in topology.pstates.items():
            if pstate in specs:
                was = None if topology.meanings is None else topology.meanings.get(pstate, {})
                old = PStateSpec.from_json(plain)
                found += _pstate(old, specs[pstate], was, meanings.get(pstate, {}), labels)
    hint = "keep it as it is mirrored, or deploy those modules without their mirrors first"
    found += [DeployChange("refused", "mirror", module.name, why, hint) for why in broken]
    found.sort(key=lambda each: _EFFECTS.index(each.effect))
    gone = {each.part for each in found if each.effect == "removed" and each.kind != "mirror"}
    reserved = tuple(sorted({*before.removed, *gone, *deleted}))
    return DeployPlan(module.name, first=False, changes=tuple(found), reserved=reserved)


def _declared(module: Module) -> Iterator[tuple[Kind, str]]:
    for name in module.depots:
        yield "depot", name
    for name in module.ticks:
        yield "tick", name
    for name in module.topologies:
        yield "topology", name
    for name, pstate in module.pstates().items():
        if pstate.hidden is None:
            yield "pstate", name
    for name in module.logs:
        yield "log", name
    for topology in module.topologies.values():
        for name in sinks_of(topology.graph):
            yield "sink", name
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
            if not pstate.startswith("_"):
                yield "pstate", pstate
        for sink in topology.sinks:
            yield "sink", sink
    for name, mirror in before.mirrors.items():
        yield "mirror" if mirror.module else "log", name


def _hidden(before: Deployment, bound: Sequence[BoundTopology]) -> dict[str, Sequence[Match]]:
    """By topology what becomes of the hidden state that is declared, and that was deployed."""
    found: dict[str, Sequence[Match]] = {each.declared.name: each.hidden for each in bound}
    for name, topology in before.topologies.items():
        if name not in found:
            found[name] = hidden_of_topology(topology)
    return found


def _check_removed(
    before: Deployment,
    module: Module,
    hidden: Mapping[str, Sequence[Match]],
    remove: Collection[str],
) -> None:
    there = {f"{kind}:{name}" for kind, name in _deployed(before) if kind != "mirror"}
    declared = {f"{kind}:{name}" for kind, name in _declared(module)}
    for match in (match for matches in hidden.values() for match in matches):
        there |= {f"hidden:{each.label}" for each in match.before}
        if match.effect in ("kept", "taken over") and match.hidden is not None:
            declared.add(f"hidden:{match.hidden.label}")
            there.add(f"hidden:{match.hidden.label}")
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


def _parts(before: Deployment, module: Module, remove: Collection[str]) -> Iterator[DeployChange]:
    """What comes and what goes."""
    there, declared = list(_deployed(before)), list(_declared(module))
    owners: dict[tuple[str, str], str] = {}
    for owner, each in before.topologies.items():
        owners |= {("pstate", name): owner for name in each.pstates}
        owners |= {("sink", name): owner for name in each.sinks}
    for kind, name in declared:
        if (kind, name) not in there:
            # a mirror holds nothing; roots of earlier releases list those that were taken out
            taken = kind != "mirror" and _was_taken(before, kind, name)
            why = "a removed one had this name, and a name is not given twice"
            yield (
                DeployChange("refused", kind, name, why, "use another name")
                if taken
                else DeployChange("added", kind, name)
            )
    for kind, name in there:
        if (kind, name) in declared:
            continue
        owner = owners.get((kind, name), "")
        with_topology = bool(owner) and f"topology:{owner}" in remove
        if kind == "mirror" or with_topology or f"{kind}:{name}" in remove:
            yield DeployChange("removed", kind, name, _GONE.get(kind, "its data is deleted"))
        else:
            hint = f"declare it again; to delete it with its data, remove {kind}:{name}"
            yield DeployChange("refused", kind, name, "no longer declared", hint)


def _was_taken(before: Deployment, kind: Kind, name: str) -> bool:
    """Whether a removed part had the name; offsets go by it, of depots and of logs."""
    kinds: tuple[Kind, ...] = ("depot", "log") if kind in ("depot", "log") else (kind,)
    stands = name in before.depots or name in before.mirrors
    return any(f"{each}:{name}" in before.removed for each in kinds) or (len(kinds) > 1 and stands)


def _depots(before: Deployment, module: Module) -> Iterator[DeployChange]:
    for name, depot in before.depots.items():
        declared = module.depots.get(name)
        if declared is None:
            continue
        ddl = to_ddl(declared.schema)
        added = added_columns(ddl, depot.ddl)
        new, problem = new_migrations(depot, declared), not_migrated(depot, declared)
        if problem is not None:
            hint = "deploy the first alone" if len(new) > 1 else "leave the migration out"
            yield DeployChange("refused", "depot", name, problem, hint)
        elif new:
            yield DeployChange("migrated", "depot", name, new[0].id)
        elif added:
            detail = f"new columns, null in older records: {', '.join(added)}"
            yield DeployChange("changed", "depot", name, detail)
        elif depot.ddl != ddl:
            detail = (
                "the schema of a depot is fixed, but for columns added at the end that may be "
                f"null, and for migrations: {depot.ddl} is deployed, {ddl} declared"
            )
            yield DeployChange("refused", "depot", name, detail, _MIGRATE)
        if depot.partitions != declared.partitions:
            detail = f"partitions are fixed: {depot.partitions} deployed, {declared.partitions} "
            yield DeployChange("refused", "depot", name, detail + "declared", _KEEP)
        yield from _partitioner(name, depot, declared)


def _partitioner(
    name: str, depot: DepotDeployment, declared: DepotDeclaration
) -> Iterator[DeployChange]:
    before, now = depot.partition_by, described_partitioner(declared)
    was_function, is_function = depot.by_function, callable(declared.partition_by)
    if before != now:
        detail = f"new records go by {now or 'nothing'}, not {before!r}"
        yield DeployChange("changed", "depot", name, detail)
    elif was_function not in (None, is_function):
        ways = ("the field 'function'", "a function")
        detail = f"new records go by {ways[is_function]}, not by {ways[not is_function]}"
        yield DeployChange("changed", "depot", name, detail)


def _ticks(before: Deployment, module: Module) -> Iterator[DeployChange]:
    for name, every_ms in before.ticks.items():
        declared = module.ticks.get(name)
        if declared is not None and declared.every_ms != every_ms:
            detail = f"the interval is fixed: {every_ms} ms is deployed, {declared.every_ms} ms "
            yield DeployChange("refused", "tick", name, detail + "declared", _KEEP)


def _topology(before: TopologyDeployment, now: Microbatch) -> Iterator[DeployChange]:
    if before.vnode_count != now.vnode_count:
        detail = f"the vnode count is fixed: {before.vnode_count} is deployed, {now.vnode_count} "
        yield DeployChange("refused", "topology", now.name, detail + "declared", _KEEP)
    sources = set(now.graph.depots())
    for depot in sorted(sources - set(before.depots)):
        yield DeployChange("changed", "topology", now.name, f"reads {depot} from where it says")
    for depot in sorted(set(before.depots) - sources):
        yield DeployChange("changed", "topology", now.name, f"no longer reads {depot}")


def _sinks(topology: str, before: TopologyDeployment, module: Module) -> Iterator[DeployChange]:
    """What of sinks that stay is not as it was."""
    declared = {
        name: (each.name, step)
        for each in module.topologies.values()
        for name, step in sinks_of(each.graph).items()
    }
    hint = "declare it as it is deployed, or another one under a new name, and remove sink:"
    for name, signature in before.sinks.items():
        if name not in declared:
            continue
        owner, step = declared[name]
        if owner != topology:
            detail = f"it belongs to topology {topology!r} for life, not {owner!r}"
            yield DeployChange("refused", "sink", name, detail, hint + name)
        for detail in differences_of_sink(signature, signature_of(step)):
            yield DeployChange("refused", "sink", name, detail, hint + name)


def _pstate(
    before: PStateSpec,
    now: PStateSpec,
    was: Mapping[str, list[str]] | None,
    means: Mapping[str, list[str]],
    labels: Mapping[str, str],
) -> Iterator[DeployChange]:
    """What changes of a PState, a user's or one of those that hidden state lies in."""
    if now.name in labels:
        for each in differences(before, now):
            yield DeployChange("refused", "hidden", labels[now.name], each)
        return
    if before.topology != now.topology:
        detail = f"it belongs to topology {before.topology!r} for life, not {now.topology!r}"
        yield DeployChange("refused", "pstate", now.name, detail, _KEEP)
        return
    for each in differences(before, now, was or {}, means):
        hint = _MIGRATE if each.startswith("schema") else _KEEP
        hint = OWN_PSTATE if before.node == now.node else hint
        yield DeployChange("refused", "pstate", now.name, each, hint)
    for meaning in meaning_changes(before, now, was, means):
        yield DeployChange(meaning.effect, "pstate", now.name, meaning.detail, meaning.hint)
    for migration in now.migrations:
        if migration.generation > before.generation:
            at = f" at {'.'.join(migration.position)}" if migration.position else ""
            yield DeployChange("migrated", "pstate", now.name, f"{migration.id}{at}")
    if before.private != now.private:
        yield DeployChange("changed", "pstate", now.name, "private" if now.private else "public")
