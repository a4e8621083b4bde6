"""The revisions of a module's cluster: a numbered object each, the highest one stands.

Only the life of the coordinator that is in charge makes them. They hold no data: any placement
gives the same results, so a lost revision costs nothing but a look at the workers.
"""

from __future__ import annotations

import msgspec

from atoll.placement.info import ClusterInfo
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

_KEPT = 100
"""So many of the last ones are kept, to look at."""


class Revision(msgspec.Struct, frozen=True):
    """One revision.

    Attributes:
        info: The cluster.
        epoch: The life of the coordinator that made it.
        at_ms: When.
        why: What made it change, for a person.
    """

    info: ClusterInfo
    epoch: int
    at_ms: int
    why: str


class Revisions:
    """The sequence of one module."""

    def __init__(self, store: ObjectStore, module: str) -> None:
        self.objects = NumberedObjects(store, f"{module}/cluster")

    def latest(self) -> Revision | None:
        """The one that stands; None before the module was first deployed.

        Raises:
            DamageError: When it cannot be read.
        """
        number = self.objects.latest()
        if number is None:
            return None
        return msgspec.msgpack.decode(self.objects.read(number), type=Revision)

    def create(self, revision: Revision) -> bool:
        """Make it the one that stands; False when its number is taken."""
        try:
            self.objects.create(revision.info.revision, msgspec.msgpack.encode(revision))
        except ObjectExistsError:
            return False
        self.objects.delete_below(revision.info.revision - _KEPT)
        return True
