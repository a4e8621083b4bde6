"""Aggregates over windows of event time as tasks run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.steps.folding.step import StoringStep

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from atoll.engine.exchange.grouping import Grouping
    from atoll.engine.step import Opening, Work
    from atoll.topology.times import Clock

TIMES = 2
"""How many of the elements of a window's key say when it is: its end and its start."""


@dataclass(frozen=True)
class TimedStep(StoringStep):
    """Fold rows into windows of event time, which may be sessions.

    ``elements`` are the end and the start of the window, then the keys. With ``sessions`` windows
    of one key that overlap become one, and that PState has their states, by keys, start and end.
    """

    sessions: str | None

    placing: ClassVar[slice] = slice(TIMES, None)  # all windows of a key share a vnode

    @property
    def joins_rows(self) -> bool:
        """Where rows become sessions, which are stretches of time."""
        return self.sessions is not None

    def grouped(
        self, keys: list[pa.Array], rows: int, *, combining: bool
    ) -> tuple[Grouping | None, list[pa.Array]]:
        """By session, as far as these rows tell."""
        if self.sessions is None:
            return super().grouped(keys, rows, combining=combining)
        from atoll.steps.windows.session_rows import partial_sessions

        return partial_sessions(keys)


@dataclass(frozen=True)
class BoundWindows(TimedStep):
    """A window's row comes out when it closes.

    ``emitted`` has the keys first, then start and end. Entries of ``pstate`` have ``elements`` in
    their order, so that the windows of a vnode lie in the order in which they close; of sessions
    it is only the index.
    """

    clock: Clock
    lateness_ms: int
    emitted: pa.Schema

    @property
    def agenda(self) -> tuple[str, Clock]:
        """Its windows, by the watermark."""
        return self.pstate, self.clock

    @property
    def pstates(self) -> tuple[str, ...]:
        """Every PState that it writes."""
        return (self.pstate,) if self.sessions is None else (self.pstate, self.sessions)

    @property
    def emits(self) -> pa.Schema:
        """A row per window."""
        return self.emitted

    @property
    def runs_without_rows(self) -> bool:
        """When windows close."""
        return True

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for, and those in which windows close."""
        return {name: vnodes | opening.due(self.pstate) for name in self.pstates}

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Fold the rows, then close what is due."""
        from atoll.steps.windows.run import run

        due = work.due(self.pstate)
        out, agenda = run(self, rows, work.times, due, work.writer, work.refused)
        work.agenda[self.pstate] = agenda
        work.emit(self.tag, out)


@dataclass(frozen=True)
class BoundLiveSessions(TimedStep):
    """Merge rows into sessions that are entries of a user's PState; none of them closes.

    ``pstate`` and ``sessions`` are that PState, whose first key says where a session is.
    """

    placing: ClassVar[slice] = slice(TIMES, TIMES + 1)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Merge the rows."""
        from atoll.steps.windows.merging import merge

        merge(self, rows, work.writer)
