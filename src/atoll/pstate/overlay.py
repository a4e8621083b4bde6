"""What readers see instead of what a later microbatch wrote: reverse logs laid over a store.

An overlay answers, for each key that something later than the reader's commit overwrote, what
it was at that commit. Few lookups search the reverse logs in place; many turn them into a table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from atoll.pstate.entries import Bounds
from atoll.pstate.reverse_log import ReverseLog

__all__ = ["UNTOUCHED", "Overlay"]

_SEARCHES_MAX = 64


class _Untouched:
    """The type of :data:`UNTOUCHED`."""


UNTOUCHED: Final = _Untouched()
"""The answer for a key that nothing later overwrote: the store's own value holds."""


class Overlay:
    """The values at one commit of everything that was overwritten after it.

    Args:
        logs: The reverse logs of all later ids in the store, oldest first.
    """

    __slots__ = ("_keys", "_logs", "_olds", "_searches")

    def __init__(self, logs: Sequence[ReverseLog]) -> None:
        """Keep the logs; nothing is decoded yet."""
        self._logs = logs
        self._searches = 0
        self._olds: dict[bytes, bytes | None] | None = None
        self._keys: list[bytes] | None = None

    def find(self, key: bytes) -> bytes | _Untouched | None:
        """The value at the commit (None: absent), or UNTOUCHED when the store's own holds."""
        if self._olds is not None:
            return self._olds.get(key, UNTOUCHED)
        self._searches += 1
        if self._searches > _SEARCHES_MAX:
            return self._table().get(key, UNTOUCHED)
        for log in self._logs:
            position = log.position(key)
            if position >= 0:
                return log.old(position)
        return UNTOUCHED

    def over_page(
        self, pairs: list[tuple[bytes, bytes]], bounds: Bounds
    ) -> list[tuple[bytes, bytes]]:
        """The entries of a range at the commit.

        Args:
            pairs: All entries that the store has in the range, in scan order.
            bounds: The range.
        """
        table = self._table()
        assert self._keys is not None
        keys = self._keys
        start = 0 if bounds.low is None else bisect_left(keys, bounds.low)
        end = len(keys) if bounds.high is None else bisect_left(keys, bounds.high)
        if start >= end:
            return pairs
        found = dict(pairs)
        for key in keys[start:end]:
            old = table[key]
            if old is None:
                found.pop(key, None)
            else:
                found[key] = old
        return sorted(found.items(), reverse=bounds.reverse)

    def _table(self) -> dict[bytes, bytes | None]:
        if self._olds is None or self._keys is None:
            olds: dict[bytes, bytes | None] = {}
            for log in reversed(self._logs):
                olds.update(log.items())
            self._keys = sorted(olds)
            self._olds = olds
        return self._olds
