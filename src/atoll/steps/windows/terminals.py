"""The state steps that go by event time, as the tasks run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.engine.program import Terminal

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.codec.values.leaf import LeafCodec
    from atoll.engine.program import FoldedField, KeyElement
    from atoll.topology.times import Clock

__all__ = ["TIMES", "LiveSessionsTerminal", "ObserveTerminal", "WindowTerminal"]

TIMES = 2
"""How many of the elements of a window's key say when it is: its end and its start."""


@dataclass(frozen=True)
class WindowTerminal(Terminal):
    """Fold rows into windows of event time; a window's row comes out when it closes.

    ``elements`` are the end and the start of the window, then the keys; ``emitted`` has the keys
    first, then start and end. Entries of ``pstate`` have those elements in that order, so that
    the windows of a vnode lie in the order in which they close. With ``sessions`` that PState
    is only the index, and the states are in that one, by keys, start and end.
    """

    pstate: str
    elements: tuple[KeyElement, ...]
    fields: tuple[FoldedField, ...]
    codec: LeafCodec
    clock: Clock
    lateness_ms: int
    emitted: pa.Schema
    sessions: str | None = None

    @property
    def agenda(self) -> tuple[str, Clock]:
        """Its windows, by the watermark."""
        return self.pstate, self.clock

    @property
    def pstates(self) -> tuple[str, ...]:
        """Every PState that it writes."""
        return (self.pstate,) if self.sessions is None else (self.pstate, self.sessions)


@dataclass(frozen=True)
class LiveSessionsTerminal(WindowTerminal):
    """Merge rows into sessions that are entries of a user's PState; none of them closes.

    ``pstate`` and ``sessions`` are that PState, whose first key says where a session is.
    """

    @property
    def agenda(self) -> None:  # type: ignore[override]
        """Nothing is ever due."""
        return None

    @property
    def pstates(self) -> tuple[str, ...]:
        """The PState that it writes."""
        return (self.pstate,)


@dataclass(frozen=True)
class ObserveTerminal(Terminal):
    """Tell the highest event time in ``column``, less a delay; without a column count the rows."""

    name: str
    column: str | None
    delay_ms: int

    def both(self, one: int | None, other: int) -> int:
        """What two parts of the rows tell together."""
        if one is None:
            return other
        return one + other if self.column is None else max(one, other)
