"""Lets the retention of depots drop what no topology of the module would read again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from atoll.microbatch.history import CommitHistory
from atoll.microbatch.objects import Commit
from atoll.microbatch.progress import with_starts

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.microbatch.loop import TopologyLoop
    from atoll.storage.local import LocalStore

__all__ = ["DepotTrimmer"]

_INTERVAL_SECONDS = 10.0


class DepotTrimmer:
    """Trims the depots of one module when it is called, but only now and then.

    Args:
        store: The root.
        module: Whose depots they are.
        depots: Its depots, by name.
        loops: Its topologies, by name.
    """

    def __init__(
        self,
        store: LocalStore,
        module: str,
        depots: Mapping[str, Depot],
        loops: Mapping[str, TopologyLoop],
    ) -> None:
        """The first call trims."""
        self._store = store
        self._module = module
        self._depots = depots
        self._loops = loops
        self._not_before = 0.0

    def __call__(self) -> None:
        """Keep what a rollback of any topology would read again; the rest is retention's."""
        now = time.monotonic()
        if now < self._not_before:
            return
        self._not_before = now + _INTERVAL_SECONDS
        needed_by = {name: self._oldest(loop).ends() for name, loop in self._loops.items()}
        for name, depot in self._depots.items():
            needed = [
                needed_by[topology][name]
                for topology, loop in self._loops.items()
                if name in loop.depots
            ]
            protected = [min(offsets) for offsets in zip(*needed, strict=True)] or None
            depot.trim(protected)

    def _oldest(self, loop: TopologyLoop) -> Commit:
        """The progress that a topology can go back to."""
        last = loop.published
        history = CommitHistory(self._store, self._module, loop.topology, last)
        oldest = history.as_of(last.readable_from).commit
        return with_starts(oldest, loop.actions.starts, loop.depots)
