"""Append rows to a depot: ``stream.append_to(alerts)``.

An end of a stream. The tasks write the rows to files that the commit names; once the commit
stands, they are appended to the depot, exactly once however often the microbatch was tried or
the appending was repeated. Another topology, or the same one, may read the depot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration

__all__ = ["AppendTo"]


@dataclass(frozen=True, eq=False)
class AppendTo(StateOperator):
    """Ends on the actors like a state step, but touches no state and needs no key."""

    depot: DepotDeclaration
    choose: Callable[..., Any] | None
    """The depot's partitioner where it is the user's: the tasks try it before the commit."""

    @property
    def title(self) -> str:
        """As users write it."""
        return "append_to"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Nothing: read the depot with a source."""
        return False
