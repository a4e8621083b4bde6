"""What one read may cost, where somebody else chose its path.

A path is short and what it asks for may not be: forty times ``multi_path`` of two paths leads to
2^40 places. Whoever reads for others sets a budget around the read; without one nothing is counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from atoll.errors import BudgetError
from atoll.pstate.reader import Reader

__all__ = ["Budget", "BudgetedReader", "current_budget", "within"]

_SPENT_BETWEEN_CLOCKS = 256


class Budget:
    """What is left of it.

    Args:
        branches_max: So many paths within the path are followed.
        entries_max: So many entries of stores are read.
        bytes_max: So many bytes of them.
        seconds_max: How long it may take.
    """

    def __init__(
        self,
        *,
        branches_max: int = 100_000,
        entries_max: int | None = None,
        bytes_max: int | None = None,
        seconds_max: float = 30.0,
    ) -> None:
        self._limits = (branches_max, entries_max, bytes_max)
        self._branches = self._entries = self._bytes = self._spent = 0
        self._seconds_max = seconds_max
        self._deadline: float | None = None  # from the first thing read on

    def branch(self) -> None:
        """A path within the path is followed.

        Raises:
            BudgetError: When that is one too many, or it takes too long.
        """
        self._branches += 1
        if self._branches > self._limits[0]:
            raise self._over(f"follows more than {self._limits[0]} paths within it")
        self._look_at_clock()

    def entry(self, size: int) -> None:
        """An entry of a store is read.

        Raises:
            BudgetError: When that is too much, or it takes too long.
        """
        _, entries_max, bytes_max = self._limits
        self._entries += 1
        self._bytes += size
        if entries_max is not None and self._entries > entries_max:
            raise self._over(f"reads more than {entries_max} entries")
        if bytes_max is not None and self._bytes > bytes_max:
            raise self._over(f"reads more than {bytes_max} bytes")
        self._look_at_clock()

    def _look_at_clock(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds_max
        self._spent += 1
        if self._spent % _SPENT_BETWEEN_CLOCKS == 0 and time.monotonic() > self._deadline:
            raise self._over(f"takes more than {self._seconds_max:g} seconds")

    def _over(self, what: str) -> BudgetError:
        return BudgetError(
            f"the path {what}",
            hint="ask for less at once: a range of keys, or fewer paths within it; to take all of "
            "a PState, export it",
        )


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current_budget() -> Budget | None:
    """The budget of what is being read."""
    return _current.get()


@contextmanager
def within(budget: Budget) -> Iterator[None]:
    """Let reads in the block cost no more."""
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)


class BudgetedReader:
    """A reader whose entries are counted.

    Args:
        reader: What reads.
        budget: What it may cost.
    """

    def __init__(self, reader: Reader, budget: Budget) -> None:
        self._reader = reader
        self._budget = budget

    def get(self, vnode: int, key: bytes) -> bytes | None:
        """The value of a key."""
        found = self._reader.get(vnode, key)
        self._budget.entry(len(key) + len(found or b""))
        return found

    def scan(self, *arguments: Any, **more: Any) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range."""
        for key, value in self._reader.scan(*arguments, **more):
            self._budget.entry(len(key) + len(value))
            yield key, value
