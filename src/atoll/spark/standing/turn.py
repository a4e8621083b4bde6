"""Whose turn it is: a lock that is given to those who wait for it in the order in which they came.

A plain lock would let whoever has just given it back take it again, and a busy topology would
keep the others from their work.
"""

from __future__ import annotations

import threading
from collections import deque


class Turn:
    """Taken by one thread at a time, first come, first served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._taken = False

    def take(self, seconds_max: float) -> bool:
        """Wait for the turn; False when it did not come in time."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                came = self._changed.wait_for(
                    lambda: not self._taken and self._queue[0] is ticket, max(0.0, seconds_max)
                )
                if came:
                    self._taken = True
                return came
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def give_back(self) -> None:
        """Let the next one take it."""
        with self._changed:
            assert self._taken
            self._taken = False
            self._changed.notify_all()
