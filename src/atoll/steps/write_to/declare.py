"""Write rows to a sink: ``stream.write_to(Folder("..."), name="orders")``.

An end of a stream. The tasks write the rows to files that the commit names, as ``append_to`` does;
once the commit stands they are kept for the sink until it has taken them. No topology waits for
that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.names import check_name
from atoll.sinks.interface import Sink, SinkRows
from atoll.steps.changes.declare import Changes
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.flow import Flow
    from atoll.topology.graph import Graph


@dataclass(frozen=True, eq=False)
class WriteTo(StateOperator):
    """Ends on the actors like a state step, but touches no state and needs no key."""

    sink: Sink
    name: str

    @property
    def title(self) -> str:
        """As users write it."""
        return "write_to"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Nothing."""
        return False

    @property
    def hands_out(self) -> str:
        """The sink."""
        return self.name

    def rows(self, schema: pa.Schema) -> SinkRows:
        """What the sink gets, given the columns that reach it."""
        before = self.inputs[0]
        if not isinstance(before, Changes):
            return SinkRows(schema)
        return SinkRows(schema, before.key_names, "elements" if before.of_sets else "entries")

    @property
    def gets(self) -> str:
        """What rows the sink gets, as far as that may not change."""
        before = self.inputs[0]
        return f"changes of {before.pstate.name}" if isinstance(before, Changes) else "rows"

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step, of which any actor takes rows."""
        from atoll.steps.write_to.bind import bound_write

        return (bound_write(self, binding),)


def write_to(stream: Flow, sink: object, name: str, place: str) -> None:
    """Let the rows end in a sink.

    Raises:
        DeclarationError: When it is no sink, or the name cannot be or is taken.
    """
    if not isinstance(sink, Sink):
        raise DeclarationError(
            f"write_to takes a sink, not {sink!r}",
            hint='give one of atoll.sinks, such as Folder("/data/orders")',
            declared=place,
        )
    check_name(name, "sink", place)
    if name in sinks_of(stream.graph):
        raise DeclarationError(
            f"sink {name!r} is declared twice",
            hint="give each write_to a name of its own; to write the rows of several streams to "
            "one sink, unite them first: stream.union(other)",
            declared=place,
        )
    stream.graph.add(WriteTo((stream.operator,), place, sink, name))


def sinks_of(graph: Graph) -> dict[str, WriteTo]:
    """The ends in sinks of a topology, by the sinks' names."""
    return {each.name: each for each in graph.operators if isinstance(each, WriteTo)}
