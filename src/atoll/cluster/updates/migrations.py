"""Takes over migrations into what is deployed: which are new, which go on, what they convert.

The deployment keeps every migration with the codec before it and the user's function, pickled by
value, so that any reader of the root can convert what is not rewritten yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from atoll.cluster.deploy.catalog import BoundTopology
from atoll.cluster.updates.meaning import other_states
from atoll.errors import AtollError, DeployError, UserCodeError
from atoll.microbatch.commits.history import CommitHistory, latest_commit
from atoll.pstate.migration import Migration
from atoll.pstate.ranked.layout import ranked_nodes
from atoll.pstate.spec import PStateSpec
from atoll.pstate.store.stores import module_stores
from atoll.pstate.view import PStateView
from atoll.schema import Map, Node, Set, Struct, to_json, to_text

if TYPE_CHECKING:
    from atoll.storage.folders import RootFolders
    from atoll.topology.declared import DeclaredMigration, PStateDeclaration
    from atoll.views.deployment import Deployment


Ship = Callable[[Callable[..., Any]], bytes]

_SAMPLE = 100
"""So many entries of a PState are converted before a new migration is deployed."""


def migrated(
    before: Deployment | None, bound: list[BoundTopology], ship: Ship
) -> list[BoundTopology]:
    """The topologies with the migrations of their PStates, those deployed before and new ones.

    Raises:
        DeployError: When a migration cannot be taken over.
    """
    done = [_topology(before, each, ship) for each in bound]
    specs = {name: spec for each in done for name, spec in each.program.pstates.items()}
    return [_reading(each, specs) for each in done]


def differences(
    before: PStateSpec,
    now: PStateSpec,
    was: Mapping[str, list[str]] = {},
    means: Mapping[str, list[str]] = {},
) -> list[str]:
    """What of a PState differs from what is deployed and no migration explains, in words.

    Args:
        before: As deployed.
        now: As declared.
        was: Which aggregates were folded into it by place, as far as that is known.
        means: Which are now.
    """
    new = {m.position for m in now.migrations if m.id not in before.migrated}
    found = []
    shape = _shape(before.node) == _shape(now.node)
    for what, old, declared in (
        ("vnode count", before.vnode_count, now.vnode_count),
        ("spread over vnodes", before.is_global, now.is_global),
        ("structure", "" if shape else to_text(before.node), "" if shape else to_text(now.node)),
        ("vnodes of keys", _keys_by(before), _keys_by(now)),
    ):
        if old != declared:
            found.append(f"{what}: {old} is deployed, {declared} declared")
    if before.track_size and not now.track_size:
        found.append(
            "it tracks sizes, and no longer would: keep track_size=True, since counters "
            "that are not kept would be wrong"
        )
    gone = dict(ranked_nodes(before.node)).keys() - dict(ranked_nodes(now.node)).keys()
    for position in sorted(gone):
        at = f" at {'.'.join(position)}" if position else ""
        found.append(
            f"it is ranked{at}, and no longer would be: keep ranked=, by this or by something "
            "else, since ranks that are not kept would be wrong"
        )
    if found:
        return found
    for position, codec in before.codecs.items():
        if position not in new and codec.to_json() != now.codecs[position].to_json():
            at = f" at {'.'.join(position)}" if position else ""
            if before.node == now.node:
                found += other_states(position, codec, now.codecs[position], was, means)
            else:
                found.append(
                    f"schema{at}: {to_text(before.node)} is deployed, {to_text(now.node)} declared"
                )
    if before.initial_bytes != now.initial_bytes and () not in new:
        found.append(f"initial value: {before.initial!r} is deployed, {now.initial!r} declared")
    return found


def try_migrations(before: Deployment, bound: list[BoundTopology], folders: RootFolders) -> None:
    """Convert some entries with each new migration, before anything is changed.

    Raises:
        DeployError: When one cannot be converted; its key is in the message.
    """
    from atoll.storage.roots import open_store

    store = open_store(folders.root)
    for each in bound:
        known = before.topologies.get(each.declared.name)
        for name, spec in each.program.pstates.items():
            if known is None or name not in known.pstates:
                continue
            old = PStateSpec.from_json(known.pstates[name])
            if spec.generation > old.generation:
                _try(store, folders, spec)


def _try(store: Any, folders: RootFolders, spec: PStateSpec) -> None:
    last = latest_commit(store, spec.module, spec.topology)
    history = CommitHistory(store, spec.module, spec.topology, last)
    stores = module_stores(str(folders.local), spec.module)
    view = PStateView(stores, spec.name, spec.vnode_count, history, spec)
    left = _SAMPLE
    for vnode in range(spec.vnode_count):
        if left <= 0:
            return
        try:
            left -= sum(1 for _ in islice(view.scan(vnode), left))
        except UserCodeError as error:
            raise DeployError(error.message, hint=error.hint, **error.context) from error


def _reading(each: BoundTopology, specs: Mapping[str, PStateSpec]) -> BoundTopology:
    """The topology with the module's other PStates that it reads as they are now."""
    mirrors = {name: specs.get(name, spec) for name, spec in each.program.mirrors.items()}
    return replace(each, program=replace(each.program, mirrors=mirrors))


def _topology(before: Deployment | None, each: BoundTopology, ship: Ship) -> BoundTopology:
    known = before.topologies.get(each.declared.name) if before is not None else None
    specs = {}
    for name, spec in each.program.pstates.items():
        plain: Mapping[str, Any] | None = None if known is None else known.pstates.get(name)
        declared = each.declared.graph.pstates[name]
        old = None if plain is None else PStateSpec.from_json(plain)
        specs[name] = _pstate(old, spec, declared, ship)
    return replace(each, program=replace(each.program, pstates=specs))


def _pstate(
    before: PStateSpec | None, now: PStateSpec, declared: PStateDeclaration, ship: Ship
) -> PStateSpec:
    wanted = {each.id: each for each in declared.migrations}
    if before is None:
        return replace(now, migrated=tuple(wanted))
    known = tuple(
        replace(m, function=ship(wanted[m.id].function)) if m.id in wanted else m
        for m in before.migrations
    )
    new = [each for each in declared.migrations if each.id not in before.migrated]
    made: list[Migration] = []
    for each in new:
        made.append(_new(before, now, each, before.generation + len(made) + 1, ship))
    if len({m.position for m in made}) < len(made):
        raise DeployError(
            f"PState {now.name!r} has two new migrations of one value",
            hint="deploy one, then the next: each starts from what is deployed",
            declared=declared.place,
        )
    ids = (*before.migrated, *(each.id for each in new))
    return replace(now, migrations=(*known, *made), migrated=ids)


def _new(
    before: PStateSpec, now: PStateSpec, each: DeclaredMigration, generation: int, ship: Ship
) -> Migration:
    position = each.position
    if _shape(before.node) != _shape(now.node) or position not in before.codecs:
        raise DeployError(
            f"migration {each.id!r} of PState {now.name!r} changes more than its values: the maps "
            "and their keys, and which fields are stored apart, stay as they are",
            hint="fill another PState, and remove this one later",
            deployed=to_text(before.node),
            declared=to_text(now.node),
        )
    codec = before.codecs[position]
    if codec.hidden or now.codecs[position].hidden:
        raise DeployError(
            f"migration {each.id!r} of PState {now.name!r}: an aggregate keeps more than the value",
            hint="fill another PState from the depots",
        )
    try:
        return Migration(each.id, generation, position, codec, ship(each.function))
    except AtollError:
        raise
    except Exception as error:
        raise DeployError(
            f"the function of migration {each.id!r} cannot be stored: {error}",
            hint="let it use nothing that cannot be pickled, such as open files",
        ) from error


def _keys_by(spec: PStateSpec) -> str:
    return "their hash" if spec.partition_by is None else "a function"


def _shape(node: Node) -> Any:
    """A schema without the types of its leaves."""
    match node:
        case Map(key=key, value=value):
            return {"map": [to_json(key), _shape(value)]}
        case Set(item=item):
            return {"set": to_json(item)}
        case Struct(fields=fields) if not node.leaf:
            return {"struct": [[name, _shape(value)] for name, value in fields]}
    return "value"
