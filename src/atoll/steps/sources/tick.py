"""Records that time itself makes: ``microbatch.source(module.tick("minute", "1 minute"))``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import RootOperator

if TYPE_CHECKING:
    from atoll.topology.declared import TickDeclaration

__all__ = ["Tick"]


@dataclass(frozen=True, eq=False)
class Tick(RootOperator):
    """At most one record a microbatch: the newest tick, if one has come since the last."""

    tick: TickDeclaration

    @property
    def title(self) -> str:
        """As drawings show it."""
        return f"tick {self.tick.name}"
