"""The path itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atoll.path.control import ControlSteps
from atoll.path.keyed import KeyedSteps
from atoll.path.listed import ListedSteps
from atoll.path.ranked import RankedSteps
from atoll.path.steps import Step

__all__ = ["Path"]


@dataclass(frozen=True, slots=True)
class Path(KeyedSteps, RankedSteps, ListedSteps, ControlSteps):
    """A sequence of steps. Every method returns a longer path and leaves this one as it is.

    Attributes:
        steps: The steps in order.
        from_outside: Whether it came as JSON, so that texts may stand for other types.
    """

    steps: tuple[Step, ...] = ()
    from_outside: bool = False

    def to_json(self) -> list[Any]:
        """The path as plain data; ``path.from_json`` reads it.

        Raises:
            PathError: When it holds a function, or a value of no type that a PState knows.
        """
        from atoll.path.wire import steps_to_json

        return steps_to_json(self.steps)

    def __str__(self) -> str:
        """As a user writes it."""
        return ".".join(map(str, self.steps)) or "stay()"

    def _add(self, *steps: Step) -> Path:
        return Path((*self.steps, *steps), self.from_outside)
