"""Reading a PState as of the last commit, from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from atoll.codec.keys import EMPTY_KEY, encode_element
from atoll.codec.values import LeafCodec
from atoll.errors import PathError
from atoll.microbatch.history import CommitHistory
from atoll.path import Path as StatePath
from atoll.pstate.select import select
from atoll.pstate.stores import module_stores
from atoll.pstate.view import PStateView
from atoll.schema import Map, Node, Scalar

if TYPE_CHECKING:
    from pathlib import Path

    from atoll.pstate.spec import PStateSpec
    from atoll.storage.local import LocalStore

__all__ = ["ReadablePState"]


class ReadablePState:
    """One PState; every read sees exactly one commit, the last one when it begins.

    Safe to share between threads.

    Args:
        spec: What the PState is.
        store: The root.
        local: The folder of this host's vnode stores.
        history: Gives the log as of the last commit; the same object while there is no new one.
    """

    def __init__(
        self,
        spec: PStateSpec,
        store: LocalStore,
        local: Path,
        history: Callable[[], CommitHistory],
    ) -> None:
        """Nothing is opened yet."""
        self.spec = spec
        self.name = spec.name
        self.store = store
        self.local = local
        self._history = history
        self._stores = module_stores(str(local), spec.module)
        self._leaves = _leaves(spec)
        self._current: tuple[CommitHistory, PStateView] | None = None

    def get(self, *keys: object, default: Any = None) -> Any:
        """The value at the keys, one per map on the way; no keys: the whole of it.

        Maps, sets and structs below the keys come as plain dicts and lists in key order.

        Args:
            *keys: ``get("a", "b")`` for a map of maps.
            default: What to return when there is no such entry.

        Raises:
            StateError: When a key is of the wrong type.
            PathError: When there are more keys than maps.
        """
        leaf = self._leaves.get(len(keys))
        if leaf is None:
            found = self.select_one(StatePath().key(*keys) if keys else StatePath())
            return default if found is None else found
        kinds, codec = leaf
        vnode, key = 0, EMPTY_KEY
        if keys:
            key = encode_element(keys[0], kinds[0])
            vnode = self.spec.vnode_of(key)
            if len(keys) > 1:
                key += b"".join(map(encode_element, keys[1:], kinds[1:]))
        data = self.view().vnode(vnode).get(key)
        if data is not None:
            return codec.decode(data)
        return default if default is not None else self.spec.initial

    def select(self, path: StatePath) -> list[Any]:
        """All values that the path leads to.

        Raises:
            PathError: When the path does not fit the schema.
        """
        return select(self.view(), self.spec, path)

    def select_one(self, path: StatePath) -> Any:
        """The one value that the path leads to.

        Raises:
            PathError: When it leads to none or to several, or does not fit the schema.
        """
        found = self.select(path)
        if len(found) != 1:
            raise PathError(
                f"the path leads to {len(found)} values, not one",
                hint="use select(...) for any number of values",
                pstate=self.name,
            )
        return found[0]

    def view(self) -> PStateView:
        """The PState as of the last commit; several reads through one view see one commit."""
        history = self._history()
        known = self._current
        if known is None or known[0] is not history:
            view = PStateView(self._stores, self.name, self.spec.vnode_count, history)
            known = self._current = (history, view)
        return known[1]

    def view_at(self, commit_id: int) -> PStateView:
        """The PState as of an earlier commit that is still kept.

        Raises:
            NotFoundError: When the commit was dropped, or never made.
        """
        history = CommitHistory.open(self.store, self.spec.module, self.spec.topology, commit_id)
        return PStateView(self._stores, self.name, self.spec.vnode_count, history)


def _leaves(spec: PStateSpec) -> dict[int, tuple[tuple[Scalar, ...], LeafCodec]]:
    """For each number of keys that leads to a value: the keys' kinds and the value's codec."""
    kinds: list[Scalar] = []
    node: Node = spec.node
    while isinstance(node, Map):
        kinds.append(node.key)
        node = node.value
    return {len(kinds): (tuple(kinds), spec.codec(()))} if node.leaf else {}
