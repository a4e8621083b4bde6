"""The sources of a module that runs: each feeds its depot in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from atoll.errors import NotFoundError
from atoll.sources.feeding import Feeder
from atoll.sources.kept import SourceLog
from atoll.sources.runner import RunningSource

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.sources.base import Source
    from atoll.storage.objects import ObjectStore


class ModuleSources:
    """All sources of one module.

    Args:
        store: The root.
        module: The module.
        sources: What feeds its depots, by depot.
        depots: Its depots, open.
        now_ms: The clock.
    """

    def __init__(
        self,
        store: ObjectStore,
        module: str,
        sources: Mapping[str, Source],
        depots: Mapping[str, Depot],
        now_ms: Callable[[], int],
    ) -> None:
        """Nothing is read before :meth:`start`."""
        self._module = module
        self._running: dict[str, RunningSource] = {}
        for name, source in sources.items():
            aside = None if source.dead_letter is None else depots[source.dead_letter.name]
            log = SourceLog(store, module, name, source.id)
            feeder = Feeder(source, depots[name], aside, log, now_ms)
            self._running[name] = RunningSource(f"{module}/{name}", feeder, log, now_ms)

    def __iter__(self) -> Iterator[str]:
        """The names of the depots that have sources."""
        return iter(sorted(self._running))

    def get(self, depot: str) -> RunningSource:
        """The source of a depot.

        Raises:
            NotFoundError: When it has none.
        """
        if depot not in self._running:
            raise NotFoundError(
                f"no source feeds depot {depot!r} of module {self._module!r}",
                hint="there are sources of: " + (", ".join(self) or "none"),
            )
        return self._running[depot]

    def status(self) -> dict[str, Any]:
        """The status of each, by depot."""
        return {name: self._running[name].status() for name in self}

    def start(self) -> None:
        """Begin; call once."""
        for each in self._running.values():
            each.start()

    def close(self) -> None:
        """Read no more; returns when what is under way has ended."""
        with ExitStack() as ending:
            for each in self._running.values():
                ending.callback(each.close)
                each.stop()

    def kill(self) -> None:
        """Read no more, without waiting."""
        for each in self._running.values():
            each.stop()
