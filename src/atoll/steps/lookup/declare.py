"""Add a PState's value to each row: ``stream.lookup(profiles["user_id"], "profile")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import DeclarationError
from atoll.schema import Map, Struct
from atoll.steps.columns.transform import Transform
from atoll.steps.projection import Projection
from atoll.topology.flow import Flow, after, target_to_read
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration, Target
    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Lookup(StateOperator):
    """Reads the entry that a row's keys name, as it stood before this step's writes.

    Writes of earlier steps of the same microbatch are seen, those of steps at the same depth of
    the topology are not. The new column is null where there is no entry.
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


def lookup(stream: Flow, source: Target | PStateDeclaration, column: str, place: str) -> Flow:
    """Add a :class:`~atoll.steps.lookup.declare.Lookup`."""
    target = target_to_read(stream, source, "lookup", place)
    if not target.node.leaf:
        raise DeclarationError(
            f"{target.text} is stored element by element and cannot be looked up as one value",
            hint=_readable_below(stream, target),
            declared=place,
        )
    projection = Projection()
    keys = tuple(projection.column(part.text) for part in target.key_parts)
    before = projection.before(stream, place, "lookup")
    found = after(stream.graph, Lookup((before,), place, target, keys, column))
    return _without(found, projection, place)


def _readable_below(stream: Flow, target: Target) -> str:
    """How to read what lies below a place that holds more than one value."""
    node, place = target.node, target.text
    while isinstance(node, Map) or (isinstance(node, Struct) and not node.leaf):
        if isinstance(node, Map):
            place, node = place + '["..."]', node.value
            continue
        name = next((name for name, each in node.fields if each.leaf), None)
        if name is None:
            break
        place, node = f'{place}["{name}"]', dict(node.fields)[name]
    if node.leaf:
        return f"look up one of its values: {place}"
    name = target.pstate.name
    if stream.graph.word == "query":
        return (
            f"read its elements as rows: select_from({name}, lambda row: path.key(row.k).all(), "
            'emits="element ...")'
        )
    return f'read it in Python: process(function, key="...", states=[{name}], emits="...")'


def _without(stream: Flow, projection: Projection, place: str) -> Flow:
    """Drop the computed columns again, where the rows go on."""
    if not projection.computed:
        return stream
    names = tuple(projection.computed)

    def drop(frame: Any) -> Any:
        return frame.drop(*names)

    drop.step_word = "lookup"  # type: ignore[attr-defined]  # for messages
    drop.keeps_origins = True  # type: ignore[attr-defined]  # Atoll's own, it names its columns
    return after(stream.graph, Transform((stream.operator,), place, drop))
