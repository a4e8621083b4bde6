"""One piece of work at a time in a thread beside the loop's, which nothing depends on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from atoll.logs import get_logger

_log = get_logger("atoll.engine")


class Beside:
    """Runs one piece of work at a time. For one thread that begins and ends it.

    Args:
        name: The thread's.
    """

    def __init__(self, name: str) -> None:
        """Nothing runs."""
        self._name = name
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Run it when what ran before has ended. What it raises is logged and no more."""
        self.end()
        self._thread = threading.Thread(target=self._run, args=(work,), name=self._name)
        self._thread.daemon = True
        self._thread.start()

    def end(self) -> None:
        """Return when nothing runs any more."""
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - who needs it does it, and tells what is wrong
            _log.debug("work beside was given up", thread=self._name, error=str(error))
