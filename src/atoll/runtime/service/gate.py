"""The entrance of a runtime's intake: open, or closed while something has to come first."""

from __future__ import annotations

import threading
from types import TracebackType

from atoll.errors import BusyError


class Gate:
    """Who brings events is inside for as long as that takes; nobody comes in while it is closed.

    Args:
        name: Of the runtime.
    """

    def __init__(self, name: str) -> None:
        """Open."""
        self.closed = False
        self._name = name
        self._inside = 0
        self._changed = threading.Condition()

    def close(self) -> None:
        """Let nobody in any more; returns when nobody is inside."""
        with self._changed:
            self.closed = True
            self._changed.wait_for(lambda: not self._inside)

    def open(self) -> None:
        """Let everybody in again."""
        with self._changed:
            self.closed = False
            self._changed.notify_all()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until it is open; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.closed, timeout_seconds)

    def __enter__(self) -> None:
        """Go in.

        Raises:
            BusyError: When it is closed.
        """
        with self._changed:
            if self.closed:
                raise BusyError(
                    f"runtime {self._name!r} is being changed", hint="send again in a while"
                )
            self._inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Go out."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()
