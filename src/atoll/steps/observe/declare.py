"""What a microbatch tells of its rows beside what becomes of them: an event time, or a count.

An end that nobody writes: ``with_watermark`` and ``window`` put it beside the rows' way. What it
finds goes into the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.hidden import Hidden

__all__ = ["Observe"]


@dataclass(frozen=True, eq=False)
class Observe(StateOperator):
    """The highest event time in ``column`` less ``delay_ms``; the number of rows without one."""

    name: str
    word: str
    column: str | None = None
    delay_ms: int = 0
    hidden: Hidden | None = None
    """What is kept of it, under that name."""

    @property
    def title(self) -> str:
        """What the user wrote that made it."""
        return self.word

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Nothing."""
        return False
