"""How many bytes the local stores of vnodes take: what a move of them would cost at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from atoll.placement.info import ClusterInfo

__all__ = ["Sizes", "vnode_bytes"]

Sizes = Mapping[int, Sequence[int]]
"""For each root fragment the bytes of vnode 0, 1, 2 and so on."""

_DATA = "data.mdb"


def vnode_bytes(info: ClusterInfo, folder: Path) -> dict[int, list[int]]:
    """For each root fragment with vnodes the bytes of each vnode, over all its PStates.

    Args:
        info: The cluster.
        folder: Of the module's local stores; a vnode that has none there counts as nothing.
    """
    sizes = {}
    for root in info.roots():
        if root.kind != "source":
            names = sorted({name for each in info.group(root.id) for name in each.pstates})
            sizes[root.id] = [
                sum(_bytes(folder / name / str(vnode) / _DATA) for name in names)
                for vnode in range(len(root.owners))
            ]
    return sizes


def _bytes(path: Path) -> int:
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_blocks * 512
