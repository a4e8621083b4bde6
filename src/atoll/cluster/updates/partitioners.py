"""Whether functions that say the vnodes of keys are those that put the keys there."""

from __future__ import annotations

from collections.abc import Mapping

from atoll.codec.keys.elements import decode_element
from atoll.errors import DeployError
from atoll.microbatch.commits.history import CommitHistory, latest_commit
from atoll.pstate.spec import PStateSpec
from atoll.storage.folders import RootFolders
from atoll.storage.roots import open_store
from atoll.views.deployment import Deployment
from atoll.views.readable import ReadablePState

_VNODES_LOOKED_AT = 64


def check_key_partitioners(
    folders: RootFolders, before: Deployment, specs: Mapping[str, PStateSpec]
) -> None:
    """Hold that functions which say the vnodes of keys say of stored keys where they are.

    A function cannot be compared with what it was. So the first and the last key of some vnodes
    are looked at: one that would now be looked for elsewhere shows that it is another function.

    Raises:
        DeployError: With such a key.
        UserCodeError: When the function raises for a key that is there.
    """
    store = open_store(folders.root)
    for name, spec in specs.items():
        known = before.topologies.get(spec.topology)
        if not callable(spec.partition_by) or known is None or name not in known.pstates:
            continue
        last = latest_commit(store, before.module, spec.topology)
        history = CommitHistory(store, before.module, spec.topology, last)
        _look_at_keys(spec, ReadablePState(spec, store, folders.local, lambda h=history: h))  # type: ignore[misc]


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
