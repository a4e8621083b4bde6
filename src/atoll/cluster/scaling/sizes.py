"""How many bytes the local stores of vnodes take: what a move of them would cost at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from atoll.placement.info import ClusterInfo
from atoll.pstate.store.store_file import store_bytes

Sizes = Mapping[int, Sequence[int]]
"""For each root fragment the bytes of vnode 0, 1, 2 and so on."""


def pstate_vnodes(
    info: ClusterInfo, pstate: str, count: int, folder: Path, told: Mapping[tuple[str, int], int]
) -> dict[str, list[int]]:
    """For each vnode of a PState its ``bytes`` and the ``units`` that own them.

    Args:
        info: The cluster.
        pstate: Its name.
        count: How many vnodes it has.
        folder: Of the module's stores on this host; a vnode that has none there counts as nothing.
        told: What other hosts said, by PState and vnode; it goes before what is here.
    """
    known = ((pstate, vnode) for vnode in range(count))
    sizes = [
        told[each] if each in told else store_bytes(folder / pstate / str(each[1]))
        for each in known
    ]
    owners = next((list(each.owners) for each in info.fragments if pstate in each.pstates), [])
    return {"bytes": sizes, "units": owners}


def vnode_bytes(
    info: ClusterInfo, folder: Path, told: Mapping[tuple[str, int], int]
) -> dict[int, list[int]]:
    """For each root fragment with vnodes the bytes of each vnode, over all its PStates.

    Args:
        info: The cluster.
        folder: Of the module's stores on this host; a vnode that has none there counts as nothing.
        told: What other hosts said, by PState and vnode; it goes before what is here.
    """
    sizes = {}
    for root in info.roots():
        if root.kind != "source":
            names = sorted({name for each in info.group(root.id) for name in each.pstates})
            sizes[root.id] = [
                sum(
                    told[name, vnode]
                    if (name, vnode) in told
                    else store_bytes(folder / name / str(vnode))
                    for name in names
                )
                for vnode in range(len(root.owners))
            ]
    return sizes
