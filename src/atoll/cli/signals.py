"""Stopping on Ctrl-C and SIGTERM: the first signal asks, the second one ends the process.

Nothing is broken off in the middle. Starting Spark least of all: its Java process, left alone
before it has told where it listens, would never end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from atoll.cli.output import note

_TOLD_SECONDS = 3.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Tells whether to stop, and lets a command wait for that.

    Attributes:
        event: Set by the first signal.
    """

    def __init__(self) -> None:
        self.event = threading.Event()

    def listen(self) -> None:
        """Take the signals; again after Spark has started, whose session takes SIGINT."""
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if not self.event.is_set():
            # Unbuffered: the signal may have come in the middle of another write.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"stopping ...\n")
        self.event.set()


@contextmanager
def telling(stop: Stop, what: Callable[[], str]) -> Iterator[None]:
    """While the rest of the block ends after a stop, say now and then what it waits for.

    Args:
        stop: What the block waits for first.
        what: Says it; nothing is told when it is empty.
    """
    over = threading.Event()

    def tell() -> None:
        stop.event.wait()
        while not over.wait(_TOLD_SECONDS):
            with suppress(Exception):  # what is being closed may not be able to say
                if said := what():
                    note(f"waiting for {said}; Ctrl-C again ends at once")

    threading.Thread(target=tell, name="atoll-telling", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def stopping() -> Iterator[Stop]:
    """Take the signals for a while; the previous handlers come back at the end."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    stop = Stop()
    stop.listen()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
