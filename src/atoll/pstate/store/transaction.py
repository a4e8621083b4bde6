"""One vnode store inside one transaction: its header, its entries and its reverse logs.

The operations here are steps; the order in which they bring a store to the state that somebody
needs is decided in :mod:`atoll.pstate.store.opening` and :mod:`atoll.pstate.view`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from atoll.errors import DamageError
from atoll.pstate.store.attempt import FORMAT_VERSION, Header, Pending
from atoll.pstate.store.entries import Entries
from atoll.pstate.store.environment import Environment
from atoll.pstate.store.reverse_log import ReverseLog, encode_reverse_log

HEADER_KEY = b"header"
"""Where the header stands: in LMDB's main table, beside the names of the other two."""

_STEP_KEY = struct.Struct(">QH")


class StoreTransaction:
    """The contents of one vnode store within one LMDB transaction.

    Attributes:
        entries: The data table.
        header: As read at the start, or as set since; :meth:`write_header` stores it.
        stored_header: The header's bytes as found at the start; None in a new store.
    """

    __slots__ = ("_reverse", "_transaction", "entries", "header", "stored_header")

    def __init__(self, environment: Environment, transaction: Any) -> None:
        self._transaction = transaction
        self._reverse = environment.reverse
        self.entries = Entries(transaction, environment.data)
        self.stored_header: bytes | None = transaction.get(HEADER_KEY)
        self.header = Header.from_bytes(self.stored_header)
        if self.header.format_version != FORMAT_VERSION:
            raise DamageError(
                "a vnode store has another format", format_version=self.header.format_version
            )

    def write_header(self, header: Header) -> None:
        """Set the header."""
        self.header = header
        self._transaction.put(HEADER_KEY, header.to_bytes())

    def reverse_logs(self, above_id: int) -> Iterator[tuple[int, int, ReverseLog]]:
        """(id, step, log) of every reverse log of a later id, oldest first."""
        cursor = self._transaction.cursor(self._reverse)
        if cursor.set_range(_STEP_KEY.pack(above_id + 1, 0)):
            for key, blob in cursor.iternext():
                yield (*_STEP_KEY.unpack(key), ReverseLog(blob))

    def put_reverse_log(self, log_id: int, step: int, blob: bytes) -> None:
        """Keep what a step overwrote."""
        self._transaction.put(_STEP_KEY.pack(log_id, step), blob, db=self._reverse)

    def forget_reverse_logs(self, upto_id: int) -> None:
        """Drop the reverse logs of that id and all earlier ones."""
        cursor = self._transaction.cursor(self._reverse)
        while cursor.first() and _STEP_KEY.unpack(cursor.key())[0] <= upto_id:
            cursor.delete()

    def undo(self, pending: Sequence[Pending]) -> None:
        """Take back pending work, newest first.

        Raises:
            DamageError: When its reverse log is not there.
        """
        for work in reversed(pending):
            key = _STEP_KEY.pack(work.id, work.step)
            blob = self._transaction.get(key, None, self._reverse)
            if blob is None:
                raise DamageError("a vnode store lacks a reverse log", id=work.id, step=work.step)
            self._take_back(key, ReverseLog(blob))

    def undo_above(self, target_id: int) -> None:
        """Take back everything later than an id; the header's floor must allow it."""
        for log_id, step, log in reversed(list(self.reverse_logs(target_id))):
            self._take_back(_STEP_KEY.pack(log_id, step), log)

    def _take_back(self, key: bytes, log: ReverseLog) -> None:
        self.entries.put_many(log.keys(), log.olds())
        self._transaction.delete(key, db=self._reverse)

    def apply(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        *,
        reverse_at: tuple[int, int] | None,
    ) -> None:
        """Apply changes that somebody else computed.

        Args:
            keys: Sorted and unique.
            values: The new values; None deletes.
            reverse_at: (id, step) under which to keep what they overwrite; None to keep nothing.
        """
        if reverse_at is not None:
            olds = self.entries.get_many(keys)
            self.put_reverse_log(*reverse_at, encode_reverse_log(keys, olds))
        self.entries.put_many(keys, values)

    def clear(self) -> None:
        """Make the store empty, as if it had never been written (its fence stays)."""
        self.entries.clear()
        self._transaction.drop(self._reverse, delete=False)
        self.header = Header(fence=self.header.fence)
