"""Starts modules again that should run and do not, until they do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from atoll.logs import get_logger

_log = get_logger("atoll.cluster")

_DELAY_SECONDS = 0.5
_DELAY_SECONDS_MAX = 5.0
"""As long as attempts wait for a storage that refuses."""


class Reviver:
    """A thread that tries again and again, and ends when there is nothing left to try.

    Args:
        revive: Tries once; whether something is left to be tried again.
    """

    def __init__(self, revive: Callable[[], bool]) -> None:
        self._revive = revive
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        """Whether somebody asked since the last try began."""

    def begin(self) -> None:
        """Try from now on; nothing when it does already."""
        with self._lock:
            self._wanted = True
            if self._thread is None and not self._ending.is_set():
                self._thread = threading.Thread(target=self._run, name="atoll-revive", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Try no more; a try that is under way comes to its end, without being waited for."""
        self._ending.set()

    @property
    def closed(self) -> bool:
        """Whether nothing shall be tried any more."""
        return self._ending.is_set()

    def _run(self) -> None:
        delay = _DELAY_SECONDS
        while not self._ending.wait(delay):
            with self._lock:
                self._wanted = False
            left = self._tried()
            with self._lock:
                if not (left or self._wanted):
                    self._thread = None
                    return
            delay = min(2 * delay, _DELAY_SECONDS_MAX)

    def _tried(self) -> bool:
        """Try once; a try that breaks leaves something to be tried."""
        try:
            return self._revive()
        except Exception as error:  # noqa: BLE001 - nobody would try again otherwise
            _log.warning("starting modules again failed", error=str(error))
            return True
