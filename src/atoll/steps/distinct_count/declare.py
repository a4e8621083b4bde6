"""Values that a key has not had before: the first half of ``agg.count_distinct``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.aggregates.totals.count_distinct import Flags
    from atoll.topology.declared import Part, PStateDeclaration

__all__ = ["FirstSeen"]


@dataclass(frozen=True, eq=False)
class FirstSeen(StateOperator):
    """One row per key and value that is new for some count: the key, and for which it is.

    ``state`` has an entry for each value and key, of which the schema is found from the types
    that reach the step: a bit for each count that has seen it. It is placed by the value, so
    that one key with most of the rows does not make one actor do the work of all.
    """

    value: str
    keys: tuple[str, ...]
    parts: tuple[Part, ...]
    """What the keys are in the PState that is counted into."""
    flags: Flags
    conditions: tuple[str | None, ...]
    """For each count the column that says whether a row counts; None: every row does."""
    state: PStateDeclaration

    @property
    def title(self) -> str:
        """As users write it."""
        return "count_distinct"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return (self.state,)

    @property
    def emits(self) -> bool:
        """One row per key and new value."""
        return True

    def key_name(self, number: int) -> str:
        """The column of a key in the rows that it emits."""
        return f"__k{number}"

    def new_name(self, number: int) -> str:
        """The column that says whether the value is new for a count; null where it is not."""
        return f"__new{number}"
