"""What is followed: an iterator that waits for what comes next, and that any thread may end."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from atoll.errors import AtollError

_Item = TypeVar("_Item")


class Followed(ABC, Generic[_Item]):
    """For one thread at a time; any other may close it."""

    def __init__(self) -> None:
        """It goes on until it is closed."""
        self._closed = threading.Event()
        self._error: AtollError | None = None
        self._one_at_a_time = threading.Lock()

    @abstractmethod
    def next(self, timeout_seconds: float | None = None) -> _Item | None:
        """What comes next; None when nothing came in time, or it has ended.

        Args:
            timeout_seconds: How long to wait; 0 to take only what is there, None for ever.
        """

    @abstractmethod
    def _wake(self) -> None:
        """Let whoever waits look whether it was closed."""

    def pending(self) -> Iterator[_Item]:
        """What is there now, without waiting."""
        while (item := self.next(0)) is not None:
            yield item

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed.is_set()

    def close(self, error: AtollError | None = None) -> None:
        """End it, from any thread: who waits goes on at once.

        Args:
            error: What whoever asks for more gets to know, if it is not the user's wish.
        """
        self._error = self._error or error
        self._closed.set()
        self._wake()

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> _Item:
        """What comes next, however long it takes; the end when it has ended."""
        item = self.next()
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
