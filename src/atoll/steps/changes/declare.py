"""What a microbatch changed in a PState, each changed entry once, with old and new value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.topology.declared import PStateDeclaration

__all__ = ["Changes"]


@dataclass(frozen=True, eq=False)
class Changes(StateOperator):
    """Emits after the last step of the microbatch that writes the PState.

    It costs no second read: the old values are those of the reverse log.
    """

    pstate: PStateDeclaration
    key_names: tuple[str, ...]

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """One row per changed entry."""
        return True
