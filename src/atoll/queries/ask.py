"""A query asked for each row: ``stream.query("fibonacci", emits="f long", n="n")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.topology.flow import Flow, after
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Ask(StateOperator):
    """Puts the answer beside each row: a value, the columns of a row, or a row per row of it.

    In a topology it sees that topology's state as of the commit that the microbatch follows, and
    that of other topologies as of the commits that the plan names, in every attempt: what the
    microbatch itself writes is not seen.
    """

    in_queries: ClassVar[bool] = True

    query: str
    arguments: tuple[tuple[str, str], ...]
    """For each parameter of the query the column that gives it."""
    added: pa.Schema

    @property
    def title(self) -> str:
        """As users write it."""
        return "query"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """A row per row of the answer."""
        return True

    @property
    def asks(self) -> str:
        """The query."""
        return self.query

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The columns before, then those of the answer."""
        from atoll.queries.bind import asked_schema

        return asked_schema(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step, of which any actor takes rows."""
        from atoll.queries.bind import bound_ask

        return (bound_ask(self, binding),)

    def in_query(self, query: InQuery) -> Done:
        """Asks the other query of the same module."""
        from atoll.queries.asking import asking
        from atoll.queries.bind import check_asked

        check_asked(self, query.rows, query.queries)
        emitted = pa.schema([*query.rows, *self.added])
        return emitted, asking(self, emitted)


def ask(
    stream: Flow, query: str, arguments: Mapping[str, str], added: pa.Schema, place: str
) -> Flow:
    """Add an :class:`~atoll.queries.ask.Ask`."""
    step = Ask((stream.operator,), place, query, tuple(arguments.items()), added)
    return after(stream.graph, step)
