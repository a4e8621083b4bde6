"""The external view: a PState exactly as one commit left it, for a reader in any process.

A vnode store may hold more than the commit (work of a running attempt, later commits), or less
(another worker owned the vnode). Every read looks at the store's header in its own transaction
and, while that has not changed, reads as it decided before:

* *direct*: the store is at the commit;
* *overlaid*: it holds later work, which the reverse logs hide;
* *behind*: it is brought up to the commit first, under the write lock;
* *lost*: its reverse logs no longer reach back to the commit, so the vnode is built in memory.

No transaction outlives a call, so a slow reader holds nothing up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypeVar

import lmdb

from atoll.codec.keys.elements import DATA_END
from atoll.errors import DamageError, StateError
from atoll.pstate.converter import Converter
from atoll.pstate.spec import PStateSpec
from atoll.pstate.store.attempt import Header
from atoll.pstate.store.changefile import rebuilt
from atoll.pstate.store.entries import Bounds, Entries, Page
from atoll.pstate.store.environment import Environment
from atoll.pstate.store.history import History
from atoll.pstate.store.opening import VnodeHistory, settle
from atoll.pstate.store.overlay import UNTOUCHED, Overlay, _Untouched
from atoll.pstate.store.reverse_log import ReverseLog
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.store.transaction import HEADER_KEY, StoreTransaction
from atoll.pstate.store.vnode_writer import DAMAGE

_T = TypeVar("_T")
_PAGE_ENTRIES = 1024
_REPAIRS_MAX = 16

Reading = Literal["direct", "overlaid", "behind", "lost"]


def how_to_read(header: Header, vnode: VnodeHistory) -> Reading:
    """How a store with that header shows the commit that the history ends at.

    A store that follows a later timeline than the reader shows nothing of it. One that still
    holds what a rollback abandoned is brought over, unless the reader looks further back anyway.
    """
    commit_id = vnode.commit_id
    held = header.applied
    if header.timeline > vnode.timeline:
        return "lost"
    shared = vnode.shared_upto(header)
    if shared is not None and shared < commit_id:
        highest = header.pending[0].id if header.pending else held
        if max(held, highest) > shared:
            return "behind"
    if header.pending and header.pending[0].id <= commit_id:
        if not vnode.is_committed(header.pending):
            return "behind"
        held = header.pending[0].id
    later = bool(header.pending) and header.pending[0].id > commit_id
    if held < commit_id and held < vnode.last_touched():
        return "lost" if later else "behind"
    if not later and held <= commit_id:
        return "direct"
    return "lost" if header.floor > commit_id else "overlaid"


class _Known(NamedTuple):
    """What was decided for a header: the overlay to lay over the store, if any."""

    header: bytes | None
    overlay: Overlay | None


class _MemoryVnode:
    """One vnode at one commit, built in memory from the committed log."""

    def __init__(self, vnode: VnodeHistory | None) -> None:
        self.values = {} if vnode is None else rebuilt(vnode.history, vnode.pstate, vnode.vnode)
        self._keys = sorted(self.values)

    def page(self, bounds: Bounds) -> Page:
        keys = self._keys
        start = 0 if bounds.low is None else bisect_left(keys, bounds.low)
        end = len(keys) if bounds.high is None else bisect_left(keys, bounds.high)
        pairs = [(key, self.values[key]) for key in keys[start:end]]
        if bounds.reverse:
            pairs.reverse()
        return Page(pairs, None)


class _Settled(NamedTuple):
    """The overlay of what was committed in a store after the commit to show, up to a later one."""

    timeline: int
    applied: int
    overlay: Overlay


_EMPTY = _MemoryVnode(None)
_UNSEEN = _Known(b"", None)


class VnodeView:
    """One vnode of a PState as one commit left it. Safe to share between threads."""

    __slots__ = ("_environments", "_known", "_memory", "_path", "_settled", "_vnode")

    def __init__(self, stores: VnodeStores, vnode: VnodeHistory) -> None:
        self._environments = stores.environments
        self._path = stores.path(vnode.pstate, vnode.vnode)
        self._vnode = vnode
        self._known = _UNSEEN
        self._settled: _Settled | None = None
        self._memory: _MemoryVnode | None = None if vnode.last_touched() else _EMPTY

    def get(self, key: bytes) -> bytes | None:
        """The value of the key at the commit; None when it was absent."""
        # The common case of :meth:`_use`, written out: this is the hot path of point reads.
        if self._memory is None:
            environment = self._environments.acquire(self._path)
            try:
                with environment.lmdb.begin() as transaction:
                    known = self._known
                    if transaction.get(HEADER_KEY) == known.header:
                        if known.overlay is not None:
                            old = known.overlay.find(key)
                            if not isinstance(old, _Untouched):
                                return old
                        return Entries(transaction, environment.data).get(key)
            except (lmdb.MapResizedError, lmdb.ReadersFullError, *DAMAGE):
                pass  # the long way below deals with these
            finally:
                self._environments.release(environment)
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key at the commit."""

        def read(entries: Entries, overlay: Overlay | None) -> list[bytes | None]:
            values = entries.get_many(keys)
            if overlay is not None:
                for index, key in enumerate(keys):
                    old = overlay.find(key)
                    if old is not UNTOUCHED:
                        values[index] = old  # type: ignore[assignment]  # not UNTOUCHED
            return values

        found = self._use(read)
        if found is None:
            assert self._memory is not None
            return [self._memory.values.get(key) for key in keys]
        return found

    def get_overwritten(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key at the commit, for keys that the next commit wrote.

        As :meth:`get_many`, but what came after the next commit is not looked at where the store
        tells what that one overwrote: whoever goes from commit to commit may be far behind.
        """
        if self._memory is None:
            environment = self._environments.acquire(self._path)
            try:
                with environment.lmdb.begin() as transaction:
                    store = StoreTransaction(environment, transaction)
                    if how_to_read(store.header, self._vnode) == "overlaid":
                        commit_id = self._vnode.commit_id
                        logs = takewhile(
                            lambda each: each[0] == commit_id + 1, store.reverse_logs(commit_id)
                        )
                        overlay = Overlay([log for _, _, log in logs])
                        found = [overlay.find(key) for key in keys]
                        if UNTOUCHED not in found:
                            return found  # type: ignore[return-value]  # as just seen
            except (lmdb.MapResizedError, lmdb.ReadersFullError, *DAMAGE):
                pass  # the usual way deals with these
            finally:
                self._environments.release(environment)
        return self.get_many(keys)

    def scan(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of a range in key order, or backwards.

        Args:
            low: The first key, included; None for the beginning.
            high: The last key, excluded; None for the end of the data.
            reverse: Whether to go from the end to the beginning.
            limit: How many entries at most.
        """
        bounds = Bounds(low, DATA_END if high is None else high, reverse)
        after: bytes | None = None
        left = limit
        while left is None or left > 0:
            entries_max = _PAGE_ENTRIES if left is None else min(_PAGE_ENTRIES, left)
            pairs, bounds, after = self._page(bounds, after, entries_max)
            yield from pairs if left is None else pairs[:left]
            if after is None:
                break
            left = None if left is None else left - len(pairs)
        if low is None and high is None:  # a whole vnode: mostly it is not read again
            self._known, self._settled = _UNSEEN, None

    def _page(
        self, bounds: Bounds, after: bytes | None, entries_max: int
    ) -> tuple[list[tuple[bytes, bytes]], Bounds, bytes | None]:
        """The next entries, the bounds of what is left, and where to go on."""

        def read(entries: Entries, overlay: Overlay | None) -> tuple[Page, Bounds]:
            page = entries.page(bounds, after, entries_max)
            covered, rest = _split(bounds, page)
            if overlay is not None:
                page = Page(overlay.over_page(page.pairs, covered), page.after)
            return page, rest

        found = self._use(read)
        if found is None:
            assert self._memory is not None
            return self._memory.page(bounds).pairs, bounds, None
        page, rest = found
        return page.pairs, rest, page.after

    def _use(self, read: Callable[[Entries, Overlay | None], _T]) -> _T | None:
        """Run one read on the store as it shows the commit; None when memory must serve."""
        for _ in range(_REPAIRS_MAX):
            if self._memory is not None:
                return None
            environment = self._environments.acquire(self._path)
            repair: Callable[[Environment], None] | None = None
            try:
                with environment.lmdb.begin() as transaction:
                    known = self._look(environment, transaction)
                    if known is not None:
                        return read(Entries(transaction, environment.data), known.overlay)
                repair = self._catch_up
            except lmdb.MapResizedError:
                repair = self._adopt_size
            except lmdb.ReadersFullError:
                repair = _check_readers
            except (DamageError, lmdb.Error) as error:
                if "file" in getattr(error, "context", {}):
                    raise
                repair = None
            finally:
                if repair is not None:
                    try:
                        repair(environment)
                    finally:
                        self._environments.release(environment)
                else:
                    self._environments.release(environment)
            if repair is None:
                self._environments.discard(self._path)
        raise StateError(
            "a vnode store could not be brought to the commit wanted",
            hint="read again; when it stays so, delete the local state folder",
            pstate=self._vnode.pstate,
            vnode=self._vnode.vnode,
            commit=self._vnode.commit_id,
        )

    def _look(self, environment: Environment, transaction: Any) -> _Known | None:
        """What to lay over the store as it is now; None when it must be repaired first."""
        header = transaction.get(HEADER_KEY)
        known = self._known
        if header == known.header:
            return known
        store = StoreTransaction(environment, transaction)
        reading = how_to_read(store.header, self._vnode)
        if reading == "behind":
            return None
        if reading == "lost":
            self._memory = _MemoryVnode(self._vnode)
            return None
        known = _Known(header, self._overlay(store) if reading == "overlaid" else None)
        self._known = known
        return known

    def _overlay(self, store: StoreTransaction) -> Overlay | None:
        """What hides all that came after the commit; None when nothing did.

        What was committed before the last look is not decoded again: it never changes while the
        store follows one timeline. Pending work may be taken back, and is laid on top each time.
        """
        header, before = store.header, self._settled
        if before is None or before.timeline != header.timeline or before.applied > header.applied:
            before = _Settled(header.timeline, self._vnode.commit_id, Overlay(()))
        committed: list[ReverseLog] = []
        pending: list[ReverseLog] = []
        for log_id, _, log in store.reverse_logs(before.applied):
            (committed if log_id <= header.applied else pending).append(log)
        if committed:
            applied = max(before.applied, header.applied)
            before = _Settled(header.timeline, applied, before.overlay.extended(committed))
        self._settled = before
        return Overlay(pending, before.overlay) if pending else before.overlay or None

    def _catch_up(self, environment: Environment) -> None:
        """Bring a store that is behind to the commit, unless somebody just did."""
        if self._memory is not None:
            return
        try:
            with environment.lmdb.begin(write=True) as transaction:
                store = StoreTransaction(environment, transaction)
                if how_to_read(store.header, self._vnode) == "behind":
                    settle(store, self._vnode)
                    store.write_header(store.header)
        except lmdb.MapFullError:
            self._environments.resize(environment, grow=True)
        except lmdb.MapResizedError:
            self._adopt_size(environment)
        except lmdb.Error:  # a full disk, or damage that only a write meets: read without it
            self._memory = _MemoryVnode(self._vnode)

    def _adopt_size(self, environment: Environment) -> None:
        self._environments.resize(environment, grow=False)


class MigratedVnode:
    """A vnode that is behind, read as if it had been rewritten."""

    def __init__(self, view: VnodeView, convert: Converter) -> None:
        self._view = view
        self._convert = convert

    def get(self, key: bytes) -> bytes | None:
        """The value of the key; None when it is absent."""
        value = self._view.get(key)
        return None if value is None else self._convert(key, value)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key."""
        found = zip(keys, self._view.get_many(keys), strict=True)
        return [None if value is None else self._convert(key, value) for key, value in found]

    def scan(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of a range; as for a vnode that is not behind."""
        for key, value in self._view.scan(low, high, reverse=reverse, limit=limit):
            yield key, self._convert(key, value)


class PStateView:
    """A whole PState as one commit left it. Safe to share between threads; holds nothing open.

    Args:
        stores: The vnode stores of the module on this host.
        pstate: The PState's name.
        vnode_count: How many vnodes it has.
        history: The committed log as of the commit to show.
        spec: What the PState is, to show values of older schemas as those of the present one;
            the stored values as they are when None.
    """

    def __init__(
        self,
        stores: VnodeStores,
        pstate: str,
        vnode_count: int,
        history: History,
        spec: PStateSpec | None = None,
    ) -> None:
        self.vnode_count = vnode_count
        self.commit_id = history.commit_id
        self.timeline = history.timeline
        self._stores = stores
        self._pstate = pstate
        self._history = history
        self._spec = spec
        self._vnodes: list[VnodeView | MigratedVnode | None] = [None] * vnode_count

    def vnode(self, vnode: int) -> VnodeView | MigratedVnode:
        """One vnode of it."""
        view = self._vnodes[vnode]
        if view is None:
            known = VnodeHistory(self._history, self._pstate, vnode)
            view = self._vnodes[vnode] = self._shown(VnodeView(self._stores, known), vnode)
        return view

    def _shown(self, view: VnodeView, vnode: int) -> VnodeView | MigratedVnode:
        if self._spec is None or not self._history.last_touched(self._pstate, vnode):
            return view
        generation = self._history.generation(self._pstate, vnode)
        if generation > self._spec.generation:
            raise StateError(
                f"PState {self._pstate!r} was migrated to another schema since it was opened",
                hint="connect again",
                pstate=self._pstate,
            )
        if generation == self._spec.generation:
            return view
        return MigratedVnode(view, Converter(self._spec, generation))

    def get(self, vnode: int, key: bytes) -> bytes | None:
        """The value of a key in its vnode; None when it is absent."""
        return self.vnode(vnode).get(key)

    def get_many(self, vnode: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, all of one vnode."""
        return self.vnode(vnode).get_many(keys)

    def get_overwritten(self, vnode: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of keys of one vnode, all of which the next commit wrote; none is later."""
        view = self.vnode(vnode)
        if isinstance(view, VnodeView):
            return view.get_overwritten(keys)
        return view.get_many(keys)

    def scan(
        self,
        vnode: int,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of a range of one vnode; see :meth:`VnodeView.scan`."""
        return self.vnode(vnode).scan(low, high, reverse=reverse, limit=limit)


def _split(bounds: Bounds, page: Page) -> tuple[Bounds, Bounds]:
    """The part of a range that a page covers, and the part that is left."""
    if page.after is None or not page.pairs:
        return bounds, bounds
    last = page.pairs[-1][0]
    if bounds.reverse:
        return bounds._replace(low=last), bounds._replace(high=last)
    following = last + b"\x00"
    return bounds._replace(high=following), bounds._replace(low=following)


def _check_readers(environment: Environment) -> None:
    environment.lmdb.reader_check()
