"""The operators of one topology and what must hold among them.

A topology is a graph without cycles. A PState is written by the topology that declares it, and by
no other; each source names a depot of the module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.dataflow import operators as op
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from atoll.dataflow.declared import DepotDeclaration, PStateDeclaration

__all__ = ["Graph"]


class Graph:
    """Collects a topology's operators and PStates in the order of their declaration."""

    def __init__(self, module: str, topology: str) -> None:
        """An empty graph."""
        self.module = module
        self.topology = topology
        self.operators: list[op.Operator] = []
        self.pstates: dict[str, PStateDeclaration] = {}

    def add(self, operator: op.Operator) -> None:
        """Append an operator; its inputs were added before it."""
        self.operators.append(operator)

    def check_own(self, pstate: PStateDeclaration, step: str, place: str) -> None:
        """Refuse a PState of another topology.

        Raises:
            DeclarationError: With the topology that owns it.
        """
        if self.pstates.get(pstate.name) is not pstate:
            raise DeclarationError(
                f"{step} in topology {self.topology!r} uses the PState {pstate.name!r}, "
                f"which topology {pstate.topology!r} of module {pstate.module!r} owns",
                hint="a PState is written by one topology: declare one here, or put the step there",
                declared=place,
            )

    @property
    def state_operators(self) -> list[op.StateOperator]:
        """Those that run on actors, in the order of their declaration."""
        return [each for each in self.operators if isinstance(each, op.StateOperator)]

    @property
    def sources(self) -> list[op.Source]:
        """Those that read depots."""
        return [each for each in self.operators if isinstance(each, op.Source)]

    def depots(self) -> dict[str, DepotDeclaration]:
        """The depots that the topology reads, by name."""
        return {source.depot.name: source.depot for source in self.sources}

    def writers(self, pstate: PStateDeclaration) -> list[op.StateOperator]:
        """The operators that write a PState."""
        return [each for each in self.state_operators if pstate in each.writes]

    def check(self) -> None:
        """What can only be seen once the whole topology is declared.

        Raises:
            DeclarationError: A topology without sources, or sources of one depot that start at
                different places.
        """
        if not self.sources:
            raise DeclarationError(
                f"topology {self.topology!r} has no source",
                hint="start it with microbatch.source(depot)",
            )
        starts: dict[str, object] = {}
        for source in self.sources:
            known = starts.setdefault(source.depot.name, source.start_from)
            if known != source.start_from:
                raise DeclarationError(
                    f"topology {self.topology!r} reads depot {source.depot.name!r} twice, "
                    "from different starts",
                    hint="give both sources the same start_from",
                    declared=source.place,
                )
