"""Add a PState's value to each row: ``stream.lookup(profiles["user_id"], "profile")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import DeclarationError
from atoll.schema import Map, Set
from atoll.steps.projection import Projection
from atoll.steps.rows.without import Without
from atoll.topology.flow import Flow, after, target_to_read
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.schema import Node
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration, Target
    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Lookup(StateOperator):
    """Reads the entry that a row's keys name, as it stood before this step's writes.

    Writes of earlier steps of the same microbatch are seen, those of steps at the same depth of
    the topology are not. The new column is null where there is no entry; of an element of a set
    it says whether it is there, and a whole map or set that is not there is an empty one.
    """

    in_queries: ClassVar[bool] = True

    target: Target
    keys: tuple[str, ...]
    column: str

    @property
    def detail(self) -> str:
        """What it reads."""
        return self.target.text

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Every input row, with one column more."""
        return True

    @property
    def reads(self) -> tuple[PStateDeclaration, ...]:
        """The PState."""
        return (self.target.pstate,)

    @property
    def placed_by(self) -> tuple[PStateDeclaration, ...]:
        """Where the PState lies; any actor reads a mirror."""
        return () if self.target.pstate.mirrored else (self.target.pstate,)

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Every column, and the value."""
        from atoll.steps.lookup.bind import lookup_schema

        return lookup_schema(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.lookup.bind import bound_lookup

        spec = binding.specs[self.target.pstate.name]
        return (bound_lookup(self, binding.name(self), binding.rows(self), spec, binding.own),)

    def in_query(self, query: InQuery) -> Done:
        """Reads what the call sees."""
        from atoll.steps.lookup.in_query import looks_up

        return looks_up(self, query)


@dataclass(frozen=True, eq=False)
class LookupElsewhere(Lookup):
    """Reads what another topology of the module writes, as of the commit that the plan names."""

    @property
    def title(self) -> str:
        """As users write it."""
        return "lookup"

    @property
    def placed_by(self) -> tuple[PStateDeclaration, ...]:
        """Nothing: any actor takes its rows."""
        return ()


def lookup(stream: Flow, source: Target | PStateDeclaration, column: str, place: str) -> Flow:
    """Add a :class:`~atoll.steps.lookup.declare.Lookup`."""
    target = target_to_read(stream, source, "lookup", place)
    if not (target.node.leaf or target.parts or target.pstate.is_global):
        raise DeclarationError(
            f"{target.text} is partitioned, and a row finds one key of it",
            hint=f"look up one of its values: {_readable_below(target)}",
            declared=place,
        )
    projection = Projection()
    keys = tuple(projection.column(part.text) for part in target.key_parts)
    before = projection.before(stream, place, "lookup")
    step = LookupElsewhere if _is_elsewhere(stream, target.pstate) else Lookup
    found = after(stream.graph, step((before,), place, target, keys, column))
    if not projection.computed:
        return found
    computed = tuple(projection.computed)
    return after(stream.graph, Without((found.operator,), place, computed, "lookup"))


def _is_elsewhere(stream: Flow, pstate: PStateDeclaration) -> bool:
    """Whether another topology of the module writes it."""
    own = stream.graph.pstates.get(pstate.name) is pstate
    return stream.graph.word == "topology" and not own and not pstate.mirrored


def _readable_below(target: Target) -> str:
    """A place below a whole PState that a row can name."""
    node: Node | None = target.node
    return target.text + ('["..."]' if isinstance(node, Map | Set) else "")
