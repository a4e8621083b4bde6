"""Reading a PState as of the last commit or an earlier one, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from atoll.codec.keys.elements import EMPTY_KEY, encode_element
from atoll.codec.values.leaf import LeafCodec
from atoll.errors import (
    AtollError,
    DamageError,
    NotFoundError,
    PathError,
    UsageError,
)
from atoll.markup import Rows, table
from atoll.microbatch.commits.history import CommitHistory
from atoll.path import Path as StatePath
from atoll.pstate.select import iterate, select
from atoll.pstate.store.stores import module_stores
from atoll.pstate.view import PStateView
from atoll.pstate.walking import Walk, Walked, walk
from atoll.schema import Map, Node, Scalar, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from atoll.depot.receipt import Awaited, Receipt
    from atoll.pstate.spec import PStateSpec
    from atoll.storage.roots import RootStore
    from atoll.views.export.export import Export


_GONE = (DamageError, NotFoundError)
"""What a reader meets whose commit was dropped, or abandoned by a rollback, while it read."""


class ReadablePState:
    """One PState; every read sees exactly one commit, the last one when it begins.

    After a rollback the next read sees the commit gone back to. Safe to share between threads.

    Args:
        spec: What the PState is.
        store: The root.
        local: The folder of this host's vnode stores.
        history: Gives the log as of the last commit; the same object while there is no new one.
        head: For a reader as of an earlier commit, the log as of the last one.
        wait: Waits until the state shows what came of what receipts tell of; None when it never
            changes.
    """

    def __init__(
        self,
        spec: PStateSpec,
        store: RootStore,
        local: Path,
        history: Callable[[], CommitHistory],
        head: Callable[[], CommitHistory] | None = None,
        wait: Callable[[Sequence[Receipt | Awaited | str], float], object] | None = None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.store = store
        self.local = local
        self._history = history
        self._head = head
        self._wait = wait
        self._stores = module_stores(str(local), spec.module)
        self._leaves = _leaves(spec)
        self._current: tuple[CommitHistory, PStateView] | None = None

    def __repr__(self) -> str:
        """What it is, no values: ``<PState 'counts' of topology 'mb': Map(str, int)>``."""
        spec = self.spec
        return f"<PState {spec.name!r} of topology {spec.topology!r}: {spec.node!r}>"

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
            found = self.spec.vnode_of(key)
            if found is None:
                value = self.select_one(StatePath().key(*keys))
                return default if value is None else value
            vnode = found
            if len(keys) > 1:
                key += b"".join(map(encode_element, keys[1:], kinds[1:]))
        view = self.view()
        while True:
            try:
                data = view.vnode(vnode).get(key)
                break
            except _GONE as error:
                view = self._newer(view, error)
        if data is not None:
            return codec.decode(data)
        return default if default is not None else self.spec.initial_value()

    def select(self, path: StatePath) -> list[Any]:
        """All values that the path leads to.

        Raises:
            PathError: When the path does not fit the schema.
        """
        view = self.view()
        while True:
            try:
                return Rows(select(view, self.spec, path))
            except _GONE as error:
                view = self._newer(view, error)

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

    def iterate(self, path: StatePath) -> Iterator[Any]:
        """The values that the path leads to, one after the other, all as of one commit.

        For much state: what the path ends at is read page by page as the iteration goes on, and
        never held as a whole. ``path.all()`` goes through a map's entries, ``path.keys()``
        through its keys.

        Raises:
            PathError: When the path does not fit the schema; before anything is read.
            UsageError: When the commit was dropped, or abandoned by a rollback, on the way. The
                option ``pstate.history.seconds`` says how long commits stay at least.
        """
        return _iterated(iterate(self.view(), self.spec, path), self.name)

    def walk(self, wanted: Walk) -> tuple[Walked, int]:
        """A page of what one place holds, and the commit that it is as of.

        Raises:
            PathError: When the path does not lead to one place of the schema.
        """
        view = self.view()
        while True:
            try:
                return walk(view, self.spec, wanted), view.commit_id
            except _GONE as error:
                view = self._newer(view, error)

    def history(self) -> CommitHistory:
        """The log as of the last commit; the same object while there is no new one."""
        return self._history()

    def view(self) -> PStateView:
        """The PState as of the last commit; several reads through one view see one commit."""
        history = self._history()
        view = self.view_of(history)
        self._current = (history, view)
        return view

    def view_of(self, history: CommitHistory) -> PStateView:
        """The PState as of the commit of a log."""
        known = self._current
        if known is not None and known[0] is history:
            return known[1]
        return PStateView(self._stores, self.name, self.spec.vnode_count, history, self.spec)

    def after(self, *receipts: Receipt | Awaited | str, timeout_seconds: float = 60.0) -> Self:
        """The PState itself, once it shows what came of what was appended.

        Args:
            *receipts: What ``append`` returned, or the tokens of it, from whichever process.
            timeout_seconds: How long to wait for that.

        Raises:
            ReceiptError: When the PState never shows it.
            WaitTimeoutError: When it takes longer.
            UsageError: When this is the PState as of an earlier microbatch.
        """
        if self._wait is None:
            raise UsageError(
                f"an earlier state of PState {self.name!r} never changes",
                hint="ask the PState itself, not what as_of gave",
            )
        self._wait(receipts, timeout_seconds)
        return self

    def as_of(self, microbatch: int) -> ReadablePState:
        """The PState as it was after an earlier microbatch, to read in every way.

        How far back is said by the options ``pstate.history.seconds`` and
        ``pstate.history.microbatches``. What it shows never changes; once the microbatch is too
        long ago, reading may be refused.

        Raises:
            UsageError: When it is too long ago, or has not been committed; the hint says which
                can be read.
        """
        head = self._head or self._history
        pinned = head().as_of(microbatch)
        return ReadablePState(self.spec, self.store, self.local, lambda: pinned, head)

    def export(self, *, field: str | None = None) -> Export:
        """The whole PState as of one commit, as Arrow batches or a Parquet file, for other tools.

        Args:
            field: Which values of a struct whose fields are stored apart, dotted where nested.

        Raises:
            UsageError: When there are several kinds of values and it is not said which.
        """
        from atoll.views.export.export import export_state

        history = self._history()
        view = PStateView(self._stores, self.name, self.spec.vnode_count, history, self.spec)
        return export_state(self.spec, view, history, field)

    def export_changes(
        self, after: int | None = None, up_to: int | None = None, *, field: str | None = None
    ) -> Export:
        """What commits wrote to the PState, as Arrow batches or a Parquet file.

        Args:
            after: The microbatch before the first one; the earliest that can be when None.
            up_to: The last one; the last that is committed when None.
            field: As for :meth:`export`.

        Raises:
            UsageError: When they are not all kept, or there are several kinds of values.
        """
        from atoll.views.export.export import export_changes

        return export_changes(self.spec, self._history(), after, up_to, field)

    def _repr_html_(self) -> str:
        """What it is and as of which commit it is read, for a notebook; no values."""
        spec, shown = self.spec, self._history().commit
        row = [spec.name, spec.topology, str(to_json(spec.node)), spec.vnode_count, shown.id]
        return table(["PState", "topology", "schema", "vnodes", "as of microbatch"], [row])

    def view_at(self, commit_id: int, timeline: int) -> PStateView:
        """The PState as of a commit of a timeline that was the last one lately.

        Raises:
            NotFoundError: When the commit was dropped, or never made.
        """
        history = CommitHistory.open(
            self.store, self.spec.module, self.spec.topology, commit_id, timeline
        )
        return PStateView(self._stores, self.name, self.spec.vnode_count, history, self.spec)

    def _newer(self, view: PStateView, error: AtollError) -> PStateView:
        """The view to read instead of one whose files were dropped while it was read."""
        newer = self.view()
        if newer is not view:
            return newer
        if self._head is not None:
            head, shown = self._head(), self._history()
            shared = head.branch_since(shown.timeline)
            if shared is not None and shared < shown.commit_id:
                raise UsageError(
                    f"microbatch {shown.commit_id} was abandoned by a rollback",
                    hint=f"the topology went back to microbatch {shared}",
                    pstate=self.name,
                ) from error
            head.as_of(shown.commit_id)
        raise error


def _iterated(values: Iterator[Any], name: str) -> Iterator[Any]:
    try:
        yield from values
    except _GONE as error:
        raise UsageError(
            f"the commit that was read of {name} is gone: {error.message}",
            hint="read again, faster, or raise pstate.history.seconds",
            pstate=name,
        ) from error


def check_public(pstate: ReadablePState) -> ReadablePState:
    """The PState; NotFoundError when only its topology may read it."""
    if pstate.spec.private:
        raise NotFoundError(
            f"PState {pstate.name!r} is private to topology {pstate.spec.topology!r}",
            hint="read it in a step of that topology, or declare it without private=True",
            pstate=pstate.name,
        )
    return pstate


def _leaves(spec: PStateSpec) -> dict[int, tuple[tuple[Scalar, ...], LeafCodec]]:
    """For each number of keys that leads to a value: the keys' kinds and the value's codec."""
    kinds: list[Scalar] = []
    node: Node = spec.node
    while isinstance(node, Map):
        kinds.append(node.key)
        node = node.value
    return {len(kinds): (tuple(kinds), spec.codec(()))} if node.leaf else {}
