"""What runs beside a runtime's topology, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Beside(ABC):
    """A thread that goes on until it is closed.

    Args:
        name: Of the thread.
        close_seconds: How long a close waits for what is being done.
    """

    def __init__(self, name: str, close_seconds: float) -> None:
        """Nothing runs; see :meth:`start`."""
        self._close_seconds = close_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Begin nothing more, and wait a while for what is being done."""
        self._ended.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(self._close_seconds)

    @abstractmethod
    def _loop(self) -> None:
        """What the thread does until ``_ended`` is set."""

    @abstractmethod
    def _wake(self) -> None:
        """Let the thread look whether it is to end."""
