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
    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration
    from atoll.topology.flow import Flow


@dataclass(frozen=True, eq=False)
class AppendTo(StateOperator):
    """Ends on the actors like a state step, but touches no state and needs no key."""

    depot: DepotDeclaration
    choose: Callable[..., Any] | None
    """The depot's partitioner where it is the user's: the tasks try it before the commit."""

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Nothing: read the depot with a source."""
        return False

    @property
    def appends_to(self) -> DepotDeclaration:
        """The depot."""
        return self.depot

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step, of which any actor takes rows."""
        from atoll.steps.append_to.bind import bound_append

        return (bound_append(self, binding),)


def append_to(stream: Flow, depot: DepotDeclaration, place: str) -> None:
    """Let the rows end in a depot."""
    stream.graph.check_target(depot, place)
    choose = depot.partition_by if callable(depot.partition_by) else None
    stream.graph.add(AppendTo((stream.operator,), place, depot, choose))
