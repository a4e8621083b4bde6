"""Who owns which vnodes now, read from the root's cluster: how a scan of a PState is divided."""

from __future__ import annotations

import msgspec

from atoll.errors import AtollError
from atoll.placement.mapping import Mapping
from atoll.placement.registry import Registry
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectStore

CLUSTER = "meta/cluster"
"""The sequence of the cluster's revisions."""


class _Placed(msgspec.Struct, frozen=True):
    """What is of interest here of a revision."""

    registry: Registry


def mapping_now(store: ObjectStore, module: str, pstate: str) -> Mapping | None:
    """Which unit owns each vnode of a PState at this moment; None where that is not known.

    It is a hint, which no result depends on: a module that an earlier release placed has none,
    and a revision that cannot be read says nothing.
    """
    objects = NumberedObjects(store, CLUSTER)
    try:
        number = objects.latest()
        if number is None:
            return None
        registry = msgspec.msgpack.decode(objects.read(number), type=_Placed).registry
    except (AtollError, msgspec.MsgspecError):
        return None
    part = registry.parts.get(module)
    for each in () if part is None else part.fragments:
        if pstate in each.pstates:
            return each.mapping
    return None
