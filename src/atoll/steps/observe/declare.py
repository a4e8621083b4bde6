"""What a microbatch tells of its rows beside what becomes of them: an event time, or a count.

An end that nobody writes: ``with_watermark`` and ``window`` put it beside the rows' way. What it
finds goes into the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.kept.hidden import Hidden


@dataclass(frozen=True, eq=False)
class Observe(StateOperator):
    """The highest event time in ``column`` less ``delay_ms``; the number of rows without one."""

    drawn: ClassVar[bool] = False
    known_by_name: ClassVar[bool] = True

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

    @property
    def sees_records(self) -> bool:
        """By them a watermark knows the depot partitions of its rows."""
        return self.column is not None

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step, of which one actor takes what was seen."""
        from atoll.steps.observe.bind import BoundObserve

        return (BoundObserve(*binding.name(self), self.name, self.column, self.delay_ms),)
