"""What tests of placement say of clusters and mappings."""

from __future__ import annotations

import msgspec

from atoll.placement.info import ClusterInfo
from atoll.placement.mapping import Mapping


def lose(info: ClusterInfo, name: str) -> ClusterInfo:
    """The cluster once no process reaches the worker, as the registry makes it."""
    workers = tuple(
        msgspec.structs.replace(each, gone=each.gone or each.name == name) for each in info.workers
    )
    return msgspec.structs.replace(info, workers=workers)


def is_even(mapping: Mapping) -> bool:
    """Whether no unit owns two vnodes more than another."""
    sizes = mapping.counts().values()
    return max(sizes) - min(sizes) <= 1
