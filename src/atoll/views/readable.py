"""Reading a PState as of the last commit, from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from atoll.codec.keys import encode_element, encode_key
from atoll.codec.values import LeafCodec
from atoll.errors import PathError
from atoll.microbatch.history import CommitHistory
from atoll.path import Path as StatePath
from atoll.placement.vnodes import vnode_of
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
        history: Gives the log as of the last commit.
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
        self._current: PStateView | None = None

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
        view = self.view()
        if not keys:
            data = view.get(0, encode_key((), ()))
        else:
            data = view.get(self._vnode(keys[0], kinds[0]), encode_key(keys, kinds))
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
        current = self._current
        if current is None or current.commit_id != history.commit_id:
            current = PStateView(self._stores, self.name, self.spec.vnode_count, history)
            self._current = current
        return current

    def view_at(self, commit_id: int) -> PStateView:
        """The PState as of an earlier commit that is still kept.

        Raises:
            NotFoundError: When the commit was dropped, or never made.
        """
        history = CommitHistory.open(self.store, self.spec.module, self.spec.topology, commit_id)
        return PStateView(self._stores, self.name, self.spec.vnode_count, history)

    def _vnode(self, key: object, kind: Scalar) -> int:
        if self.spec.vnode_count == 1:
            return 0
        return vnode_of(encode_element(key, kind), self.spec.vnode_count)


def _leaves(spec: PStateSpec) -> dict[int, tuple[tuple[Scalar, ...], LeafCodec]]:
    """For each number of keys that leads to a value: the keys' kinds and the value's codec."""
    kinds: list[Scalar] = []
    node: Node = spec.node
    while isinstance(node, Map):
        kinds.append(node.key)
        node = node.value
    return {len(kinds): (tuple(kinds), spec.codec(()))} if node.leaf else {}
