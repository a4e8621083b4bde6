"""The cluster as plain data, for people, HTTP and the command line."""

from __future__ import annotations

from typing import Any

import msgspec

from atoll.cluster.scaling.sizes import Sizes
from atoll.placement.info import ClusterInfo, Fragment
from atoll.placement.policies.shortage import Shortage
from atoll.placement.registry import Registry, whole
from atoll.placement.reschedule.plan import ReschedulePlan


def described_cluster(info: ClusterInfo, sizes: Sizes) -> dict[str, Any]:
    """Revision, workers, fragments with their actors, and the fragment-by-unit matrix.

    Args:
        info: The cluster.
        sizes: For each root fragment the bytes of each vnode.
    """
    return {
        "revision": info.revision,
        "policies": dict(sorted(info.policies.items())),
        "workers": [
            {
                "id": each.id,
                "name": each.name,
                "host": each.host,
                "state": each.state,
                "units": list(each.units),
            }
            for each in info.workers
        ],
        "fragments": [_fragment(info, each, sizes) for each in info.fragments],
        "matrix": {
            str(each.id): {str(unit): _vnodes(each, unit) for unit in each.units}
            for each in info.fragments
        },
    }


def described_registry(registry: Registry, sizes: Sizes) -> dict[str, Any]:
    """The same of all modules of a root; policies are by ``module/topology``.

    Args:
        registry: The cluster.
        sizes: For each root fragment the bytes of each vnode.
    """
    described = described_cluster(whole(registry), sizes)
    for each in described["fragments"]:
        module, _, topology = each["topology"].partition("/")
        each |= {"module": module, "topology": topology}
    return described


def described_plan(plan: ReschedulePlan, *, dry_run: bool) -> dict[str, Any]:
    """What a change does or did: per fragment the units, and per unit the vnodes."""
    return {
        "dry_run": dry_run,
        "revision": plan.info.revision,
        "vnodes_moved": plan.vnodes_moved,
        "bytes_moved": plan.bytes_moved,
        "fragments": {
            str(root): {
                "added": list(change.added),
                "removed": list(change.removed),
                "vnodes_moved": len(plan.moves[root]),
                "vnodes": {
                    str(unit): {"before": before, "after": after}
                    for unit, (before, after) in plan.vnodes[root].items()
                },
            }
            for root, change in plan.changes.items()
        },
        "shortage": None if plan.shortage is None else _shortage(plan.shortage),
    }


def _shortage(found: Shortage) -> dict[str, Any]:
    return {**msgspec.structs.asdict(found), "hint": found.hint}


def _fragment(info: ClusterInfo, fragment: Fragment, sizes: Sizes) -> dict[str, Any]:
    known = sizes.get(fragment.root, ())
    return {
        "id": fragment.id,
        "topology": fragment.topology,
        "name": fragment.name,
        "kind": fragment.kind,
        "follows": fragment.root if fragment.follows else None,
        "upstream": list(fragment.upstream),
        "downstream": [each.id for each in info.fragments if fragment.id in each.upstream],
        "pstates": list(fragment.pstates),
        "vnode_count": 0 if fragment.kind == "source" else len(fragment.owners),
        "bytes": sum(known),
        "mapping": [] if fragment.kind == "source" else fragment.mapping.to_json(),
        "actors": [
            {
                "unit": unit,
                "worker": None if worker is None else worker.id,
                "vnodes": _vnodes(fragment, unit),
                "bytes": sum(
                    size
                    for size, owner in zip(known, fragment.owners, strict=False)
                    if owner == unit
                ),
            }
            for unit in fragment.units
            for worker in [info.worker_of(unit)]
        ],
    }


def _vnodes(fragment: Fragment, unit: int) -> int:
    return 0 if fragment.kind == "source" else fragment.owners.count(unit)
