"""Whether a module can be deployed over what its root already holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atoll.codec.keys import decode_element
from atoll.ddl import to_ddl
from atoll.errors import DeployError
from atoll.microbatch.history import CommitHistory
from atoll.microbatch.progress import latest_commit
from atoll.module import Module
from atoll.pstate.spec import PStateSpec
from atoll.storage.local import LocalStore
from atoll.storage.places import Places
from atoll.views.deployment import Deployment
from atoll.views.readable import ReadablePState

__all__ = ["check_key_partitioners", "check_update"]

_VNODES_LOOKED_AT = 64


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
    for name, every_ms in before.ticks.items():
        tick = module.ticks.get(name)
        if tick is None:
            raise _missing("tick", name, before.module)
        _same("tick", name, "interval in milliseconds", every_ms, tick.every_ms)
    for topology_name, topology in before.topologies.items():
        new = module.topologies.get(topology_name)
        if new is None:
            raise _missing("topology", topology_name, before.module)
        _same("topology", topology_name, "vnode count", topology.vnode_count, new.vnode_count)
        for name, plain in topology.pstates.items():
            if name not in new.graph.pstates:
                raise _missing("PState", name, before.module)
            _same("PState", name, "schema", _fixed(plain), _fixed(specs[name].to_json()))
            if plain.get("track_size") and not specs[name].track_size:
                raise DeployError(
                    f"PState {name!r} tracks sizes, and no longer would",
                    hint="keep track_size=True: counters that are not kept would be wrong",
                    pstate=name,
                )


def check_key_partitioners(
    places: Places, before: Deployment, specs: Mapping[str, PStateSpec]
) -> None:
    """Hold that functions which say the vnodes of keys say of stored keys where they are.

    A function cannot be compared with what it was. So the first and the last key of some vnodes
    are looked at: one that would now be looked for elsewhere shows that it is another function.

    Raises:
        DeployError: With such a key.
        UserCodeError: When the function raises for a key that is there.
    """
    store = LocalStore(places.root)
    for name, spec in specs.items():
        known = before.topologies.get(spec.topology)
        if not callable(spec.partition_by) or known is None or name not in known.pstates:
            continue
        last = latest_commit(store, before.module, spec.topology)
        history = CommitHistory(store, before.module, spec.topology, last)
        _look_at_keys(spec, ReadablePState(spec, store, places.local, lambda h=history: h))  # type: ignore[misc]


def _look_at_keys(spec: PStateSpec, state: ReadablePState) -> None:
    view, seen = state.view(), 0
    for vnode in range(spec.vnode_count):
        ends = [*view.scan(vnode, limit=1), *view.scan(vnode, limit=1, reverse=True)]
        for entry, _ in ends:
            key, end = decode_element(entry, 0)
            now = spec.vnode_of(entry[:end])
            if now != vnode:
                raise DeployError(
                    f"partition_by of PState {spec.name!r} is another function than the deployed "
                    f"one: key {key!r} lies in vnode {vnode}, it says {now}",
                    hint="it is fixed for life: keep it, or use another name",
                    pstate=spec.name,
                )
        seen += bool(ends)
        if seen == _VNODES_LOOKED_AT:
            return


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What of a PState can never change: who may read it can, and that sizes become tracked."""
    return {k: value for k, value in spec.items() if k not in ("private", "track_size")}


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
