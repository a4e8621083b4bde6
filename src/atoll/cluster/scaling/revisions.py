"""The revisions of a root's cluster: a numbered object each, the highest one stands.

Any process that runs a module of the root makes the next one, by creating the object of its
number: so of two that would make it at once one finds it taken. When what the other changed is
none of its business, as the fragments of another module, it makes its own after that one.
They hold no data: any placement gives the same results, so a lost revision costs nothing but a
look at the workers.

Before, each module had revisions of its own, below its folder. They are taken over by whoever
first makes a revision of the root; all agree on what that came to by one more object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import msgspec

from atoll.errors import NotFoundError
from atoll.names import RESERVED
from atoll.placement.info import ClusterInfo
from atoll.placement.registry import Registry, taken_over
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError
from atoll.storage.roots import RootStore
from atoll.views.placed import CLUSTER

_KEPT = 100
"""So many of the last ones are kept, to look at."""

_BEGIN = 1
"""The number of the only object that says what was there before the first revision."""


class Revision(msgspec.Struct, frozen=True):
    """One revision.

    Attributes:
        registry: The cluster.
        module: The module on whose behalf it was made; "" when on that of all.
        epoch: The life of that module's coordinator; 0 when none made it.
        at_ms: When.
        why: What made it change, for a person.
    """

    registry: Registry
    module: str
    epoch: int
    at_ms: int
    why: str


class _OfModule(msgspec.Struct, frozen=True):
    """What a revision held when each module had its own."""

    info: ClusterInfo


class Revisions:
    """The sequence of a root, and what this process knows of it. Safe from any thread."""

    def __init__(self, store: RootStore) -> None:
        """Nothing is read yet."""
        self.objects = NumberedObjects(store, CLUSTER)
        self._begin = NumberedObjects(store, "meta/cluster-begin")
        self.store = store
        self._lock = threading.RLock()
        self._known: Registry | None = None

    def known(self) -> Registry:
        """As this process last saw it; nothing is read but for the first time."""
        return self.latest() if self._known is None else self._known

    def latest(self) -> Registry:
        """The one that stands; of revision 0 when nothing was ever deployed.

        Raises:
            DamageError: When it cannot be read.
        """
        with self._lock:
            known = None if self._known is None else self._known.revision
            number = self.objects.latest(known)
            if number is None:
                self._known = self._first()
            elif number != known or self._known is None:
                data = self.objects.read(number)
                self._known = msgspec.msgpack.decode(data, type=Revision).registry
            return self._known

    def of(self, module: str) -> Registry:
        """The latest, with a module in it that an earlier release deployed since; to look at."""
        return self._with(self.latest(), module)

    def take_over(self, module: str, said: Callable[[Registry], Revision]) -> Registry:
        """The latest; a module in it that an earlier release deployed since is in it for good."""
        return self.change(lambda registry: self._with(registry, module), said)

    def stand(
        self, before: Registry, revision: Revision, modules: Collection[str] = ()
    ) -> Registry | None:
        """Make it the one that stands; its number is given here.

        Args:
            before: What it was made from, as read.
            revision: What is to stand.
            modules: Those whose parts it changes; all that it does beside has to be free of
                conflicts with what others made meanwhile.

        Returns:
            What stands now. None when somebody else changed the same meanwhile: look again.
        """
        after = revision.registry
        with self._lock:
            now = self.latest()
            while True:
                if now != before:
                    rebased = _rebased(before, after, now, modules)
                    if rebased is None:
                        return None
                    before, after = now, rebased
                after = msgspec.structs.replace(after, revision=now.revision + 1)
                if self._made(now, msgspec.structs.replace(revision, registry=after)):
                    self._known = after
                    self.objects.delete_below(after.revision - _KEPT)
                    return after
                self._known = None
                now = self.latest()

    def change(
        self, edit: Callable[[Registry], Registry], said: Callable[[Registry], Revision]
    ) -> Registry:
        """Let an edit of the latest stand, whoever else makes one; no revision without a change."""
        while True:
            before = self.latest()
            after = edit(before)
            if after == before:
                return before
            stood = self.stand(before, said(after))
            if stood is not None:
                return stood

    # Inside ---------------------------------------------------------------------------------------

    def _with(self, registry: Registry, module: str) -> Registry:
        if module in registry.parts:
            return registry
        before = _kept_by(self.store, module)
        return registry if before is None else taken_over(registry, module, before)

    def _made(self, before: Registry, revision: Revision) -> bool:
        if self.objects.latest(before.revision or None) is None:
            mine = msgspec.msgpack.encode(before)
            agreed = self._begin.create_or_find(_BEGIN, mine)
            if agreed is not None and agreed != mine:
                return False
        try:
            self.objects.create(revision.registry.revision, msgspec.msgpack.encode(revision))
        except ObjectExistsError:
            return False
        return True

    def _first(self) -> Registry:
        """What there is before the first revision: what was agreed on, else what modules had."""
        try:
            return msgspec.msgpack.decode(self._begin.read(_BEGIN), type=Registry)
        except NotFoundError:
            pass
        registry = Registry()
        for module in self.store.folders(""):
            info = None if module in RESERVED["module"] else _kept_by(self.store, module)
            if info is not None:
                registry = taken_over(registry, module, info)
        return registry


def _kept_by(store: RootStore, module: str) -> ClusterInfo | None:
    """What a module kept for itself in an earlier release."""
    objects = NumberedObjects(store, f"{module}/cluster")
    number = objects.latest()
    if number is None:
        return None
    return msgspec.msgpack.decode(objects.read(number), type=_OfModule).info


def _rebased(
    before: Registry, after: Registry, now: Registry, modules: Collection[str]
) -> Registry | None:
    """What was made of the one before, made of the one now; None when both changed the same."""
    if now.workers != before.workers or now.trial != before.trial:
        return None
    if any(now.parts.get(each) != before.parts.get(each) for each in modules):
        return None
    if after.next_fragment != before.next_fragment != now.next_fragment:
        return None
    others = {name for name in after.parts.keys() | before.parts.keys() if name not in modules}
    if any(after.parts.get(name) != before.parts.get(name) for name in others):
        return None
    parts = {name: part for name, part in now.parts.items() if name not in modules}
    parts |= {name: part for name, part in after.parts.items() if name in modules}
    following = max(after.next_fragment, now.next_fragment)
    return msgspec.structs.replace(
        after, parts=dict(sorted(parts.items())), next_fragment=following
    )
