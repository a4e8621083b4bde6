"""The operators of one topology and what must hold among them.

A topology is a graph without cycles. A PState is written by the topology that declares it, and by
no other; each source names a depot of the module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.dataflow import operators as op
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.dataflow.declared import DepotDeclaration, PStateDeclaration, TickDeclaration
    from atoll.dataflow.queries import QueryGraph
    from atoll.dataflow.stream import Stream
    from atoll.schema import Node

__all__ = ["Graph", "declared_pstate"]


def declared_pstate(pstate: object, step: str, place: str) -> PStateDeclaration:
    """What was given to a step as a PState, when it is one.

    Raises:
        DeclarationError: With what was given instead.
    """
    from atoll.dataflow.declared import PStateDeclaration

    if not isinstance(pstate, PStateDeclaration):
        raise DeclarationError(
            f"{step} takes a PState, not {pstate!r}",
            hint="give what pstate(...) of this topology returned, not its name",
            declared=place,
        )
    return pstate


class Graph:
    """Collects a topology's operators and PStates in the order of their declaration."""

    word = "topology"
    """What it is the graph of, for messages."""

    def __init__(self, module: str, topology: str) -> None:
        """An empty graph."""
        self.module = module
        self.topology = topology
        self.operators: list[op.Operator] = []
        self.pstates: dict[str, PStateDeclaration] = {}
        self.vnode_count = 1
        """Into how many vnodes the PStates of its own steps are divided."""
        self.dead_letter: DepotDeclaration | None = None
        """Where rows go on which a user's function raises; None: they fail the microbatch."""
        self.queries: Mapping[str, QueryGraph] = {}
        """The module's queries, which a step may ask."""

    def add(self, operator: op.Operator) -> None:
        """Append an operator; its inputs were added before it.

        Raises:
            DeclarationError: When an input is another topology's, or a step that emits nothing.
        """
        for each in operator.inputs:
            if each not in self.operators:
                raise DeclarationError(
                    f"{operator.title} in {self.word} {self.topology!r} takes a stream of another "
                    f"{self.word}",
                    hint=f"begin both streams in the same {self.word}",
                    declared=operator.place,
                )
            if isinstance(each, op.StateOperator) and not each.emits:
                raise DeclarationError(
                    f"{operator.title} follows a {each.title} that emits no rows",
                    hint='declare what it yields: emits="id string, amount long"',
                    declared=operator.place,
                )
        self.operators.append(operator)

    def add_private(self, word: str, node: Node, place: str) -> PStateDeclaration:
        """A PState of a step's own; no user's name begins as its name does.

        Args:
            word: What it is for.
            node: Its schema, as far as it is known.
            place: Where the step was declared.
        """
        from atoll.dataflow.declared import PStateDeclaration

        name = stem = f"_{self.topology}-{word}"
        number = 1
        while name in self.pstates:
            number += 1
            name = f"{stem}-{number}"
        declared = PStateDeclaration(
            self.module,
            self.topology,
            name,
            node,
            self.vnode_count,
            is_global=False,
            initial=None,
            _streams=_no_changes,
            place=place,
            private=True,
        )
        self.pstates[name] = declared
        return declared

    def check_own(self, pstate: object, step: str, place: str) -> None:
        """Refuse what is no PState, and a PState of another topology.

        Raises:
            DeclarationError: With the topology that owns it, or with what was given instead.
        """
        pstate = declared_pstate(pstate, step, place)
        if pstate.mirrored:
            raise DeclarationError(
                f"{step} in topology {self.topology!r} would write {pstate.name!r}, a mirror",
                hint="a mirror is read with lookup(...) or join(...); append to a depot of "
                f"module {pstate.module!r} to have it changed there",
                declared=place,
            )
        if self.pstates.get(pstate.name) is not pstate:
            raise DeclarationError(
                f"{step} in topology {self.topology!r} uses the PState {pstate.name!r}, "
                f"which topology {pstate.topology!r} of module {pstate.module!r} owns",
                hint="a PState is written by one topology: declare one here, or put the step there",
                declared=place,
            )

    def check_readable(self, pstate: object, step: str, place: str) -> None:
        """Refuse what a step of this topology cannot read: all but its own PStates and mirrors.

        Raises:
            DeclarationError: With what can be read instead.
        """
        pstate = declared_pstate(pstate, step, place)
        if pstate.mirrored or self.pstates.get(pstate.name) is pstate:
            return
        hint = (
            "ask a query that reads it: declare module.query(...) over it, and write "
            "query(name, emits=...) here in place of this step"
        )
        if pstate.module != self.module:
            hint = (
                "mirror it, and read the mirror: module.mirror_pstate("
                f"{pstate.module!r}, {pstate.name!r}, {pstate.node!r})"
            )
        raise DeclarationError(
            f"{step} in topology {self.topology!r} reads the PState {pstate.name!r}, which "
            f"topology {pstate.topology!r} of module {pstate.module!r} writes",
            hint=hint,
            declared=place,
        )

    def check_target(self, depot: object, place: str) -> None:
        """Refuse to append to anything but a depot of this module.

        Raises:
            DeclarationError: With what was given instead.
        """
        from atoll.dataflow.declared import DepotDeclaration

        if not isinstance(depot, DepotDeclaration):
            raise DeclarationError(
                f"append_to takes a depot, not {depot!r}",
                hint="give what module.depot(...) returned",
                declared=place,
            )
        if depot.module != self.module:
            raise DeclarationError(
                f"depot {depot.name!r} belongs to module {depot.module!r}",
                hint=f"append_to reaches depots of its own module: declare it in {self.module!r}",
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

    def ticks(self) -> dict[str, TickDeclaration]:
        """The ticks that the topology reads, by name."""
        found = [each.tick for each in self.operators if isinstance(each, op.Tick)]
        return {tick.name: tick for tick in found}

    def targets(self) -> dict[str, DepotDeclaration]:
        """The depots that the topology appends to, by name."""
        return {
            step.depot.name: step.depot
            for step in self.state_operators
            if isinstance(step, op.AppendTo)
        }

    def writers(self, pstate: PStateDeclaration) -> list[op.StateOperator]:
        """The operators that write a PState."""
        return [each for each in self.state_operators if pstate in each.writes]

    def check(self) -> None:
        """What can only be seen once the whole topology is declared.

        Raises:
            DeclarationError: A topology without sources, or sources of one depot that start at
                different places.
        """
        if not self.sources and not self.ticks():
            raise DeclarationError(
                f"topology {self.topology!r} has no source",
                hint="start it with microbatch.source(depot)",
            )
        from atoll.depot.start import end

        starts: dict[str, object] = {}
        for source in self.sources:
            start = source.start_from or end()
            if starts.setdefault(source.depot.name, start) != start:
                raise DeclarationError(
                    f"topology {self.topology!r} reads depot {source.depot.name!r} twice, "
                    "from different starts",
                    hint="give both sources the same start_from",
                    declared=source.place,
                )


def _no_changes(pstate: PStateDeclaration, *_: object) -> Stream:
    raise AssertionError(f"nobody has {pstate.name} to ask for its changes")
