"""Add a PState's value to each row: ``stream.lookup(profiles["user_id"], "profile")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.topology.declared import PStateDeclaration, Target

__all__ = ["Lookup"]


@dataclass(frozen=True, eq=False)
class Lookup(StateOperator):
    """Reads the entry that a row's keys name, as it stood before this step's writes.

    Writes of earlier steps of the same microbatch are seen, those of steps at the same depth of
    the topology are not. The new column is null where there is no entry.
    """

    target: Target
    keys: tuple[str, ...]
    column: str

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Every input row, with one column more."""
        return True
