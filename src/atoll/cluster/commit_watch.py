"""The commits of a topology that runs in this process, for its subscribers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.microbatch.commits.history import CommitHistory
    from atoll.microbatch.control.requests import Requests


class LoopWatch:
    """Waits where everybody waits who wants to know of the topology's progress.

    Args:
        loop: The topology.
        head: Gives the log as of the commit that readers see.
    """

    def __init__(self, loop: Requests, head: Callable[[], CommitHistory]) -> None:
        self._loop = loop
        self.head = head

    def wait(
        self, known: CommitHistory, over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        """Return when readers see another commit, when it is over, or when the time is."""
        self._loop.wait_published(known.commit, over, timeout_seconds)

    def wake(self) -> None:
        """Let everybody who waits look whether it is over."""
        self._loop.wake()
