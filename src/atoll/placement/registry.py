"""The cluster of a root: one set of workers, parallel units and fragments for all its modules.

It is one immutable value with a revision. What concerns one module is its *part*: its fragments,
its policies, and the units that its process reaches. :func:`view` is the cluster as one module
sees it, :func:`whole` as all of them make it up; both are a :class:`ClusterInfo`, so whatever
decides about placement works on either.

Modules may run in several processes, each of which sees workers of its own: Spark gives two
applications executors on different hosts. A worker has gone when no module reaches it any more;
a module runs nothing on units that its own process does not reach. Ids of workers, units and
fragments are unique in the root, and none is ever given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from atoll.placement import workers as alone
from atoll.placement.deploying import WorkerReport, placed_topologies
from atoll.placement.fragments import FragmentSpec
from atoll.placement.info import ClusterInfo, Fragment, Worker


class Part(msgspec.Struct, frozen=True):
    """What concerns one module.

    Attributes:
        fragments: Of its topologies, by id.
        policies: For each of its topologies.
        reach: The units that its process reaches, lowest first.
    """

    fragments: tuple[Fragment, ...] = ()
    policies: dict[str, str] = {}
    reach: tuple[int, ...] = ()


class Registry(msgspec.Struct, frozen=True):
    """The cluster of a root at one revision.

    Attributes:
        revision: Higher by one with every change.
        workers: All that ever joined and were not removed, by id.
        parts: By module.
        next_worker: The id of the worker that joins next.
        next_unit: The id of the next parallel unit.
        next_fragment: The id of the next fragment.
        trial: The last trial over several processes that was decided; see
            :mod:`atoll.cluster.scaling.trials`.
    """

    revision: int = 0
    workers: tuple[Worker, ...] = ()
    parts: dict[str, Part] = {}
    next_worker: int = 0
    next_unit: int = 0
    next_fragment: int = 1
    trial: int = 0


def view(registry: Registry, module: str) -> ClusterInfo:
    """The cluster as one module sees it: a worker that its process does not reach has gone."""
    part = registry.parts.get(module, Part())
    reach = set(part.reach)
    workers = []
    for each in registry.workers:
        units = tuple(unit for unit in each.units if unit in reach)
        workers.append(msgspec.structs.replace(each, units=units or each.units, gone=not units))
    return _info(registry, tuple(workers), part.fragments, part.policies)


def whole(registry: Registry) -> ClusterInfo:
    """The cluster of all modules; a topology's name is ``module/topology``."""
    fragments = [
        msgspec.structs.replace(each, topology=full_name(module, each.topology))
        for module, part in registry.parts.items()
        for each in part.fragments
    ]
    policies = {
        full_name(module, topology): policy
        for module, part in sorted(registry.parts.items())
        for topology, policy in part.policies.items()
    }
    ordered = tuple(sorted(fragments, key=lambda each: each.id))
    return _info(registry, registry.workers, ordered, policies)


def full_name(module: str, topology: str) -> str:
    """The name of a topology that no other one of the root has."""
    return f"{module}/{topology}"


def with_view(registry: Registry, module: str, info: ClusterInfo) -> Registry:
    """The registry with a module's part as in this view of it. The revision stays.

    What a view says of workers is not taken over; see :func:`meet`, :func:`cordon`, ...
    """
    part = Part(info.fragments, info.policies, info.live_units())
    following = max(registry.next_fragment, info.next_fragment)
    changed = msgspec.structs.replace(registry, next_fragment=following)
    return _with_parts(changed, {**registry.parts, module: part})


def without(registry: Registry, module: str) -> Registry:
    """The registry without a module. The revision stays."""
    parts = {name: part for name, part in registry.parts.items() if name != module}
    return registry if module not in registry.parts else _with_parts(registry, parts)


def module_of(registry: Registry, fragment: int) -> str | None:
    """The module that a fragment is part of; None when there is no such fragment."""
    for module, part in registry.parts.items():
        if any(each.id == fragment for each in part.fragments):
            return module
    return None


def meet(registry: Registry, module: str, present: Sequence[WorkerReport]) -> Registry:
    """The registry once a module's process reaches exactly these workers. The revision stays.

    A worker has as many units as the process that sees the most of them says; each module runs on
    as many as its own process says. One that was leaving, has nothing to run and is not seen by
    any process has left, and is forgotten.

    Raises:
        UsageError: When a worker has no name, or no unit.
    """
    info = _info(registry, registry.workers, (), {})
    others = {u for name, part in registry.parts.items() if name != module for u in part.reach}
    reach: list[int] = []
    for report in present:
        known = next((each for each in info.workers if each.name == report.name), None)
        held = [] if known is None else [i for i, u in enumerate(known.units) if u in others]
        count = max(report.units, 1 + held[-1] if held else 0)
        info = alone.join(info, report.name, report.host, count if report.units > 0 else 0)
        joined = next(each for each in info.workers if each.name == report.name)
        reach += joined.units[: report.units]
    met = _with_workers(registry, info)
    part = registry.parts.get(module, Part())
    changed = msgspec.structs.replace(part, reach=tuple(sorted(reach)))
    met = _with_parts(met, {**registry.parts, module: changed})
    ended = [w.id for w in met.workers if w.leaving and w.gone and not actors_on(met, [w.id])]
    return remove(met, ended)


def deployed(
    registry: Registry,
    module: str,
    present: Sequence[WorkerReport],
    topologies: Mapping[str, Sequence[FragmentSpec]],
    policies: Mapping[str, str],
) -> Registry:
    """The registry once a module is deployed by a process that reaches these workers.

    Args:
        registry: As it is.
        module: The module.
        present: The workers.
        topologies: The fragments of each topology.
        policies: Of topologies that are deployed for the first time; the others keep theirs.

    Raises:
        DeclarationError: When a new fragment finds no parallel unit.
    """
    met = meet(registry, module, present)
    return with_view(met, module, placed_topologies(view(met, module), topologies, policies))


def cordon(registry: Registry, ids: Iterable[int]) -> Registry:
    """The registry once these workers get no new actors, of whichever module.

    Raises:
        NotFoundError: When one of them is unknown; then none is cordoned.
    """
    return _with_workers(registry, alone.cordon(_info(registry, registry.workers, (), {}), ids))


def leave(registry: Registry, ids: Iterable[int]) -> Registry:
    """The registry once these workers will end soon; they are forgotten when they have ended.

    Raises:
        NotFoundError: When one of them is unknown; then none leaves.
    """
    return _with_workers(registry, alone.leave(_info(registry, registry.workers, (), {}), ids))


def actors_on(registry: Registry, ids: Iterable[int]) -> int:
    """How many actors of all modules run on these workers; of those that are not there none."""
    units = {u for each in registry.workers if each.id in set(ids) for u in each.units}
    return sum(
        len(units.intersection(each.units))
        for part in registry.parts.values()
        for each in part.fragments
    )


def uncordon(registry: Registry, ids: Iterable[int]) -> Registry:
    """The registry once these workers may get new actors again.

    Raises:
        NotFoundError: When one of them is unknown; then all stay as they are.
    """
    return _with_workers(registry, alone.uncordon(_info(registry, registry.workers, (), {}), ids))


def remove(registry: Registry, ids: Iterable[int]) -> Registry:
    """The registry without these workers: all of them, or none.

    Raises:
        NotFoundError: When one of them is unknown.
        RescheduleError: When a unit of theirs still runs an actor of any module.
    """
    return _with_workers(registry, alone.remove(whole(registry), ids))


def taken_over(registry: Registry, module: str, info: ClusterInfo) -> Registry:
    """The registry with a module that kept its own workers, units and revisions until now.

    A worker is known by its name, and its units by their order. What was cordoned for the module
    is cordoned. Units that are known no more are given new ids, which no worker has. The revision
    is beyond every one that the module had, so none of those can be mistaken for a new one.
    """
    bare = _info(registry, registry.workers, (), {})
    ids: dict[int, int] = {}
    for old in info.workers:
        known = next((each for each in bare.workers if each.name == old.name), None)
        count = max(len(old.units), len(known.units) if known else 0)
        host = known.host if known is not None and old.gone else old.host
        bare = alone.join(bare, old.name, host, count)
        joined = next(each for each in bare.workers if each.name == old.name)
        ids.update(zip(old.units, joined.units, strict=False))
        if old.cordoned:
            bare = alone.cordon(bare, [joined.id])
    lost = sorted({u for each in info.fragments for u in each.owners} - ids.keys())
    ids.update(zip(lost, range(bare.next_unit, bare.next_unit + len(lost)), strict=True))
    ahead = registry.next_fragment - min((each.id for each in info.fragments), default=0)
    fragments = tuple(_renumbered(each, max(0, ahead), ids) for each in info.fragments)
    part = Part(fragments, info.policies, tuple(sorted(ids[unit] for unit in info.live_units())))
    met = msgspec.structs.replace(
        _with_workers(registry, bare),
        revision=max(registry.revision, info.revision),
        next_unit=bare.next_unit + len(lost),
        next_fragment=max(registry.next_fragment, info.next_fragment + max(0, ahead)),
    )
    return _with_parts(met, {**met.parts, module: part})


def _renumbered(fragment: Fragment, ahead: int, units: Mapping[int, int]) -> Fragment:
    owners = tuple(units[each] for each in fragment.owners)
    return msgspec.structs.replace(
        fragment,
        id=fragment.id + ahead,
        root=fragment.root + ahead,
        owners=tuple(sorted(owners)) if fragment.kind == "source" else owners,
        upstream=tuple(each + ahead for each in fragment.upstream),
    )


def _info(
    registry: Registry,
    workers: tuple[Worker, ...],
    fragments: tuple[Fragment, ...],
    policies: dict[str, str],
) -> ClusterInfo:
    return ClusterInfo(
        registry.revision,
        workers,
        fragments,
        policies,
        registry.next_worker,
        registry.next_unit,
        registry.next_fragment,
    )


def _with_workers(registry: Registry, info: ClusterInfo) -> Registry:
    """The registry with the workers of an info that was made from it; the revision stays."""
    if info.workers == registry.workers:
        return registry
    changed = msgspec.structs.replace(
        registry, workers=info.workers, next_worker=info.next_worker, next_unit=info.next_unit
    )
    return _with_parts(changed, registry.parts)


def _with_parts(registry: Registry, parts: dict[str, Part]) -> Registry:
    """The registry with these parts; who has gone follows from what they reach."""
    units = {unit for each in registry.workers for unit in each.units}
    parts = {
        name: msgspec.structs.replace(part, reach=tuple(u for u in part.reach if u in units))
        for name, part in sorted(parts.items())
    }
    reached = {unit for part in parts.values() for unit in part.reach}
    workers = tuple(
        msgspec.structs.replace(each, gone=reached.isdisjoint(each.units))
        for each in registry.workers
    )
    return msgspec.structs.replace(registry, workers=workers, parts=parts)
