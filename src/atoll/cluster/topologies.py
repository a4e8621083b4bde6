"""A running topology as users hold it."""

from __future__ import annotations

from typing import Any

from atoll.microbatch.loop import TopologyLoop

__all__ = ["RunningTopology"]


class RunningTopology:
    """Pause, resume, wait for and look at one topology."""

    def __init__(self, loop: TopologyLoop) -> None:
        """Made by the app."""
        self._loop = loop
        self.name = loop.topology

    def wait_processed(self, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until so many records were processed over the topology's life, and are visible.

        The count goes on over restarts. Records of all its depots count.

        Raises:
            WaitTimeoutError: When it takes longer.
            TopologyFailedError: When the topology stopped as failed.
            FencedError: When another process took the module over.
        """
        self._loop.wait_processed(count, timeout_seconds)

    def pause(self, timeout_seconds: float = 60.0) -> None:
        """Start no further microbatch; returns when the running one has ended."""
        self._loop.pause(timeout_seconds)

    def resume(self) -> None:
        """Go on after a pause or a failure."""
        self._loop.resume()

    def status(self) -> dict[str, Any]:
        """Id, version, step, lag by depot partition, durations by step, and the error if any."""
        ends = {name: list(depot.end_offsets()) for name, depot in self._loop.depots.items()}
        return self._loop.status.as_dict(ends)

    def recent_microbatches(self) -> list[dict[str, Any]]:
        """The last microbatches committed: id, records, and milliseconds by step."""
        return list(self._loop.status.history)
