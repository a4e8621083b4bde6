"""Lets the retention of depots drop what no topology of the module would read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from atoll.cluster.updates.mirrors import mirrored_offsets
from atoll.microbatch.commits.history import CommitHistory
from atoll.microbatch.commits.objects import Commit
from atoll.microbatch.commits.progress import with_starts

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.microbatch.stepping import Stepper
    from atoll.storage.roots import RootStore


_INTERVAL_MS = 10_000


class DepotTrimmer:
    """Trims the depots of one module when it is called, but only now and then.

    Args:
        store: The root.
        module: Whose depots they are.
        depots: Its depots, by name.
        loops: Its topologies, by name, those that fill others among them.
        now_ms: The clock; it may be set back.
    """

    def __init__(
        self,
        store: RootStore,
        module: str,
        depots: Mapping[str, Depot],
        loops: Callable[[], Mapping[str, Stepper]],
        now_ms: Callable[[], int],
    ) -> None:
        """The first call trims."""
        self._store = store
        self._module = module
        self._depots = depots
        self._loops = loops
        self._now_ms = now_ms
        self._last_ms = -_INTERVAL_MS

    def __call__(self) -> None:
        """Keep what a rollback of any topology would read again; the rest is retention's.

        Topologies of other modules count like the module's own.
        """
        now_ms = self._now_ms()
        if 0 <= now_ms - self._last_ms < _INTERVAL_MS:
            return
        self._last_ms = now_ms
        loops = self._loops()
        needed_by = {name: self._oldest(loop).ends() for name, loop in loops.items()}
        mirrored = mirrored_offsets(self._store, self._module)
        for name, depot in self._depots.items():
            needed = [
                needed_by[topology][name] for topology, loop in loops.items() if name in loop.depots
            ] + mirrored.get(name, [])
            protected = [min(offsets) for offsets in zip(*needed, strict=True)] or None
            depot.trim(protected)

    def _oldest(self, loop: Stepper) -> Commit:
        """The progress that a topology can go back to."""
        last = loop.published
        history = CommitHistory(self._store, self._module, loop.topology, last)
        oldest = history.as_of(last.readable_from).commit
        return with_starts(oldest, loop.actions.starts, loop.depots)
