"""Where rows come from: a depot, each microbatch its planned range of offsets; or time itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import RootOperator

if TYPE_CHECKING:
    from atoll.depot.start import StartFrom
    from atoll.topology.declared import DepotDeclaration, TickDeclaration


@dataclass(frozen=True, eq=False)
class Source(RootOperator):
    """Reads a depot from where the last commit ended.

    ``start_from`` matters only when the topology first meets the depot.
    """

    depot: DepotDeclaration
    start_from: StartFrom | None


@dataclass(frozen=True, eq=False)
class Tick(RootOperator):
    """``source(module.tick("minute", "1 minute"))``: the newest tick, if one has come since."""

    tick: TickDeclaration

    @property
    def title(self) -> str:
        """As drawings show it."""
        return f"tick {self.tick.name}"
