"""What readers see instead of what a later microbatch wrote: reverse logs laid over a store.

An overlay answers, for each key that something later than the reader's commit overwrote, what
it was at that commit. Few lookups search the reverse logs in place; many turn them into a table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from atoll.pstate.store.entries import Bounds
from atoll.pstate.store.reverse_log import ReverseLog

_SEARCHES_MAX = 256
"""How many times a reverse log is searched before a table of all of them is worth making."""


class _Untouched:
    """The type of :data:`UNTOUCHED`."""


UNTOUCHED: Final = _Untouched()
"""The answer for a key that nothing later overwrote: the store's own value holds."""


class _Content(NamedTuple):
    """What an overlay has: logs, until they are a table. Replaced as a whole, never changed."""

    logs: tuple[ReverseLog, ...]
    olds: dict[bytes, bytes | None] | None = None
    keys: Sequence[bytes] = ()


class Overlay:
    """The values at one commit of everything that was overwritten after it.

    Safe to share between threads.

    Args:
        logs: The reverse logs of all later ids in the store, oldest first.
        earlier: Another overlay, of what was overwritten before them.
    """

    __slots__ = ("_content", "_earlier", "_searches")

    def __init__(self, logs: Sequence[ReverseLog], earlier: Overlay | None = None) -> None:
        self._content = _Content(tuple(logs))
        self._earlier = earlier
        self._searches = 0

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self._content.logs or self._content.olds or self._earlier)

    def extended(self, logs: Sequence[ReverseLog]) -> Overlay:
        """An overlay of these logs, too, which follow its own; nothing is decoded again."""
        known, olds, keys = self._content
        if olds is None:
            return Overlay((*known, *logs), self._earlier)
        olds, count = dict(olds), len(olds)
        for log in logs:
            for key, old in log.items():
                olds.setdefault(key, old)
        made = Overlay((), self._earlier)
        made._content = _Content((), olds, sorted([*keys, *islice(olds, count, None)]))
        return made

    def find(self, key: bytes) -> bytes | _Untouched | None:
        """The value at the commit (None: absent), or UNTOUCHED when the store's own holds."""
        if self._earlier is not None:
            old = self._earlier.find(key)
            if old is not UNTOUCHED:
                return old
        logs, olds, _ = self._content
        if olds is None:
            self._searches += len(logs)
            if self._searches <= _SEARCHES_MAX:
                return _searched(logs, key)
            olds, _ = self._table()
        return olds.get(key, UNTOUCHED)

    def over_page(
        self, pairs: list[tuple[bytes, bytes]], bounds: Bounds
    ) -> list[tuple[bytes, bytes]]:
        """The entries of a range at the commit.

        Args:
            pairs: All entries that the store has in the range, in scan order.
            bounds: The range.
        """
        table, keys = self._table()
        start = 0 if bounds.low is None else bisect_left(keys, bounds.low)
        end = len(keys) if bounds.high is None else bisect_left(keys, bounds.high)
        if start < end:
            found = dict(pairs)
            for key in keys[start:end]:
                old = table[key]
                if old is None:
                    found.pop(key, None)
                else:
                    found[key] = old
            pairs = sorted(found.items(), reverse=bounds.reverse)
        return pairs if self._earlier is None else self._earlier.over_page(pairs, bounds)

    def _table(self) -> tuple[dict[bytes, bytes | None], Sequence[bytes]]:
        logs, olds, keys = self._content
        if olds is None:
            olds = {}
            for log in reversed(logs):
                olds.update(log.items())
            keys = sorted(olds)
            self._content = _Content((), olds, keys)
        return olds, keys


def _searched(logs: Sequence[ReverseLog], key: bytes) -> bytes | _Untouched | None:
    """What the oldest of the logs that has the key says of it."""
    for log in logs:
        position = log.position(key)
        if position >= 0:
            return log.old(position)
    return UNTOUCHED
