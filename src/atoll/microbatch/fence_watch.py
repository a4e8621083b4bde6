"""Notices within a second or two that another life of the coordinator took over.

Every command begins with a look at the epoch, but an attempt may take minutes, and a process may
have been stopped in the middle of one. So a thread of its own looks all the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from atoll.errors import FencedError
from atoll.logs import get_logger
from atoll.microbatch.epochs import Epoch

_log = get_logger("atoll.microbatch")


class FenceWatch:
    """Looks at an epoch until it is closed.

    Args:
        epoch: What to look at.
        on_fenced: Called with the reason as soon as the epoch is fenced, and at every look after
            that: what it ends may have begun between two looks.
        interval_seconds: The time between two looks.
    """

    def __init__(
        self,
        epoch: Epoch,
        on_fenced: Callable[[FencedError], None],
        interval_seconds: float = 1.0,
    ) -> None:
        """Nothing runs before :meth:`start`."""
        self._epoch = epoch
        self._on_fenced = on_fenced
        self._interval_seconds = interval_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atoll-fence-watch", daemon=True)

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def close(self) -> None:
        """Look no more. Does not wait, so it may be called by what a look called."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._interval_seconds):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - the next look must take place
                _log.warning("looking at the epoch failed", error=str(error))

    def _look(self) -> None:
        try:
            self._epoch.check()
        except FencedError as error:
            self._on_fenced(error)
