"""Writing to one vnode: one transaction from opening to commit.

A writer starts with the store exactly at the state the attempt continues from, sees its own
writes, and ends in a commit that writes the reverse log and the header together with the data,
or leaves no trace. Whoever commits also gets the changes, to write them to the incremental log.

Nothing here makes a microbatch visible: that is the commit object's part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import lmdb
import msgspec

from atoll.codec.keys.elements import DATA_END
from atoll.errors import DamageError, StateError, StorageError
from atoll.pstate.ranked.layout import Ranks
from atoll.pstate.ranked.writing import write_ranked
from atoll.pstate.store.attempt import Attempt, Header, Pending
from atoll.pstate.store.entries import Bounds
from atoll.pstate.store.environment import Environment, EnvironmentCache
from atoll.pstate.store.history import Prior
from atoll.pstate.store.opening import Opening, VnodeHistory, open_for_attempt
from atoll.pstate.store.reverse_log import encode_reverse_log
from atoll.pstate.store.sizes import with_sizes
from atoll.pstate.store.store_file import store_error
from atoll.pstate.store.transaction import StoreTransaction
from atoll.pstate.store.writer_lock import Patience, WriterLock
from atoll.schema import Node

DAMAGE = (
    DamageError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""What a damaged local store raises; the answer is to drop it and build it again."""


class VnodeChanges(NamedTuple):
    """What a writer wrote: sorted keys and their new values (None: deleted)."""

    keys: Sequence[bytes]
    values: Sequence[bytes | None]


Triple = tuple[bytes, bytes | None, bytes | None]
"""(key, value before, value after); None where there was or is no such entry."""


class VnodeWriter:
    """One write transaction on one vnode store. Use it as a context manager, in one thread.

    Leaving the context without a commit aborts. Made by
    :meth:`atoll.pstate.store.stores.VnodeStores.open`.

    Attributes:
        vnode: The vnode.
        attempt: Who writes.
        opening: What it took to bring the store to the starting state.
    """

    def __init__(
        self,
        environments: EnvironmentCache,
        path: str,
        attempt: Attempt,
        history: VnodeHistory,
        priors: Sequence[Prior] = (),
        patience: Patience | None = None,
    ) -> None:
        """Open the store: see :func:`~atoll.pstate.store.opening.open_for_attempt`."""
        self.vnode = history.vnode
        self.attempt = attempt
        self.sized: Node | None = None
        """The PState's schema, when the sizes of its collections are kept with every write."""
        self.ranked: Ranks | None = None
        """What of the PState is ranked, which is kept with every write."""
        self._environments = environments
        self._path = path
        self._history = history
        self._priors = priors
        self._batch: tuple[Sequence[bytes], Sequence[bytes | None], Sequence[bytes | None]] | None
        self._batch = None
        self._olds: dict[bytes, bytes | None] = {}
        self._news: dict[bytes, bytes | None] = {}
        self._transaction: Any = None
        self._environment: Environment | None = None
        self._lock = WriterLock(path, patience or Patience(), environments.leave)
        try:
            self._environment = environments.acquire(path, check=True)
            self.opening = self._begin()
        except BaseException as error:
            self._end(error)
            raise

    # -- reading ------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value as this writer sees it; None when the key is absent."""
        return self._store.entries.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key; fastest when they are sorted."""
        return self._store.entries.get_many(keys)

    def scan(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of a range in key order: low included, high excluded, None: all data.

        Entries that are written while the scan runs may or may not be seen.
        """
        bounds = Bounds(low, DATA_END if high is None else high, reverse)
        entries = self._store.entries
        return entries.scan(bounds) if limit is None else entries.some(bounds, limit)

    def under(self, prefixes: Sequence[bytes], longer: int) -> list[list[tuple[bytes, bytes]]]:
        """The entries under each of many keys, as :meth:`.entries.Entries.under` finds them."""
        return self._store.entries.under(prefixes, longer)

    # -- writing ------------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes) -> None:
        """Set one entry."""
        if self.sized is not None or self.ranked is not None:
            self.put_many([key], [value])
            return
        self._spread()
        if key not in self._olds:
            self._olds[key] = self._store.entries.get(key)
        self._news[key] = value
        try:
            self._store.entries.put(key, value)
        except lmdb.MapFullError:
            self._grow()

    def delete(self, key: bytes) -> None:
        """Remove one entry; an absent one is left so."""
        if self.sized is not None or self.ranked is not None:
            self.put_many([key], [None])
            return
        self._spread()
        if key not in self._olds:
            old = self._store.entries.get(key)
            if old is None:
                return
            self._olds[key] = old
        self._news[key] = None
        try:
            self._store.entries.delete(key)
        except lmdb.MapFullError:
            self._grow()

    def put_many(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        olds: Sequence[bytes | None] | None = None,
    ) -> None:
        """Set many entries at once, or remove those whose value is None.

        The lists are kept, not copied: do not change them afterwards.

        Args:
            keys: Sorted and unique.
            values: One per key.
            olds: What :meth:`get_many` of this writer gave for the same keys, if it was asked.
        """
        if not keys:
            return
        if olds is None:
            olds = self.get_many(keys)
        if self.sized is not None:
            keys, values, olds = with_sizes(self.sized, self, keys, values, olds)
        if self.ranked is None:
            self.put_plainly(keys, values, olds)
        else:
            write_ranked(self.ranked, self, keys, values, olds)

    def put_plainly(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        olds: Sequence[bytes | None] | None = None,
    ) -> None:
        """As :meth:`put_many`, without what is kept beside entries."""
        if not keys:
            return
        if olds is None:
            olds = self.get_many(keys)
        if self._batch is None and not self._news:
            self._batch = (keys, values, olds)
        else:
            self._spread()
            for key, value, old in zip(keys, values, olds, strict=True):
                self._olds.setdefault(key, old)
                self._news[key] = value
        try:
            self._store.entries.put_many(keys, values)
        except lmdb.MapFullError:
            self._grow()

    # -- ending -------------------------------------------------------------------------------

    def changes(self) -> VnodeChanges:
        """What this writer wrote so far."""
        keys, values, _ = self._written()
        return VnodeChanges(keys, values)

    def changed(self) -> list[Triple]:
        """What the microbatch changed so far, over all its steps including this writer.

        The old value is the one before the microbatch. Sorted by key; entries that ended where
        they began are left out.
        """
        keys, news, olds = self._written()
        befores: dict[bytes, bytes | None] = {}
        for log_id, _, log in self._store.reverse_logs(self.attempt.id - 1):
            if log_id == self.attempt.id:
                for key, old in log.items():
                    befores.setdefault(key, old)
        if befores:
            for key, old in zip(keys, olds, strict=True):
                befores.setdefault(key, old)
            keys = sorted(befores)
            olds = [befores[key] for key in keys]
            news = self.get_many(keys)
        triples = zip(keys, olds, news, strict=True)
        return [each for each in triples if each[1] != each[2] and each[0] < DATA_END]

    def dump(self) -> tuple[list[bytes], list[bytes]]:
        """All keys, sorted, and their values, as this writer sees them: for a checkpoint."""
        pairs = list(self._store.entries.scan(Bounds()))
        return [key for key, _ in pairs], [value for _, value in pairs]

    def commit(self) -> VnodeChanges:
        """Store everything written, with its reverse log and the new header, in one instant.

        Reverse logs that reach below the horizon of the last commit go.

        Returns:
            What was written, for the incremental log.
        """
        keys, values, olds = self._written()
        blob = encode_reverse_log(keys, olds) if keys else None
        while True:
            try:
                self._commit(blob)
                break
            except lmdb.MapFullError:
                self._grow()
            except lmdb.DiskError as error:
                raise StorageError(
                    f"a vnode store cannot be written: {error}",
                    hint="make space in the local folder; the microbatch is attempted again",
                    folder=self._path,
                ) from error
        self._end(None)
        return VnodeChanges(keys, values)

    def abort(self) -> None:
        """Give up everything written; the store keeps the state it had before the writer."""
        self._end(None)

    def close(self, error: BaseException | None = None) -> None:
        """End the writer, if it has not ended: what was not committed is given up.

        Args:
            error: Why, if anything went wrong; a store that it shows to be damaged is dropped.
        """
        self._end(error)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Abort unless committed; drop a store that proved damaged.

        Raises:
            StorageError: Instead of LMDB's own error.
        """
        self._end(error)
        if isinstance(error, lmdb.Error):
            raise store_error(error, self._path) from error

    # -- inside -------------------------------------------------------------------------------

    @property
    def _store(self) -> StoreTransaction:
        if self._transaction is None:
            raise StateError("this writer has ended", vnode=self.vnode)
        return self._opened

    def _begin(self) -> Opening:
        """Start a transaction and bring the store to the starting state.

        Logs that had to be applied are committed first, so that a microbatch that fails again
        and again need not catch up again and again.
        """
        first: Opening | None = None
        while True:
            try:
                opening = self._begin_once()
                if not opening.logs:
                    return first or opening
                self._opened.write_header(self._opened.header)
                self._transaction.commit()
                self._transaction = None
                first = first or opening
            except lmdb.MapFullError:
                self._resize(grow=True)
            except lmdb.MapResizedError:
                self._resize(grow=False)

    def _begin_once(self) -> Opening:
        assert self._environment is not None
        self._transaction = self._environment.lmdb.begin(write=True)
        self._opened = StoreTransaction(self._environment, self._transaction)
        return open_for_attempt(self._opened, self.attempt, self._history, self._priors)

    def _grow(self) -> None:
        """Double the map, which loses the transaction, and write everything again."""
        while True:
            self._resize(grow=True)
            self._begin()
            keys, values, _ = self._written()
            try:
                self._opened.entries.put_many(keys, values)
                return
            except lmdb.MapFullError:
                continue

    def _resize(self, *, grow: bool) -> None:
        assert self._environment is not None
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
        self._environments.resize(self._environment, grow=grow)

    def _spread(self) -> None:
        """Turn the one batch written into dicts, because more is written after it."""
        if self._batch is not None:
            keys, values, olds = self._batch
            self._news = dict(zip(keys, values, strict=True))
            self._olds = dict(zip(keys, olds, strict=True))
            self._batch = None

    def _written(
        self,
    ) -> tuple[Sequence[bytes], Sequence[bytes | None], Sequence[bytes | None]]:
        """(sorted keys, new values, old values)."""
        if self._batch is not None:
            return self._batch
        keys = sorted(self._news)
        return keys, [self._news[key] for key in keys], [self._olds[key] for key in keys]

    def _commit(self, blob: bytes | None) -> None:
        store, attempt = self._store, self.attempt
        header = store.header
        pending = header.pending
        fence = header.fence
        if blob is not None:
            store.put_reverse_log(attempt.id, attempt.step, blob)
            work = Pending(attempt.id, attempt.step, attempt.epoch, attempt.version, attempt.token)
            pending, fence = (*pending, work), max(fence, attempt.fence)
        floor = max(header.floor, self._history.horizon)
        new = msgspec.structs.replace(header, pending=pending, fence=fence, floor=floor)
        if blob is None and pending == Header.from_bytes(store.stored_header).pending:
            return
        store.forget_reverse_logs(floor)
        store.write_header(new)
        self._transaction.commit()
        self._transaction = None

    def _end(self, error: BaseException | None) -> None:
        try:
            if self._environment is None:
                return
            if self._transaction is not None:
                self._transaction.abort()
                self._transaction = None
            self._environments.release(self._environment)
            self._environment = None
            if isinstance(error, DAMAGE) and "file" not in getattr(error, "context", {}):
                self._environments.discard(self._path)
        finally:
            self._lock.release()
