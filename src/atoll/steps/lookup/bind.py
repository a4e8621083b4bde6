"""``lookup`` as tasks run it: add an entry's value to each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.engine.binding.columns import distinct_columns, value_type
from atoll.engine.binding.keys import elements_of
from atoll.engine.exchange.keyed import KeyedStep, KeyElement, chosen, vnodes, with_vnodes
from atoll.engine.step import Phase
from atoll.steps.lookup.readings import (
    AsOfReading,
    ElementReading,
    LeafReading,
    Reading,
    WholeReading,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from atoll.engine.step import Opening, Packing, Work
    from atoll.placement.mapping import Mapping
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.lookup.declare import Lookup
    from atoll.topology.binding import StepName
    from atoll.topology.operator import Makes


@dataclass(frozen=True)
class BoundLookup(KeyedStep):
    """Add an entry's value to each row."""

    pstate: str
    elements: tuple[KeyElement, ...]
    reading: Reading
    column: str
    rows: pa.Schema
    elsewhere: bool = False
    """Whether another topology writes the PState."""

    gives: ClassVar[Makes] = "one"

    @property
    def when(self) -> Phase:
        """What others write is read before a store is open."""
        return Phase.MIRRORS if self.elsewhere else Phase.LOOK_UP

    @property
    def keyed_by(self) -> tuple[KeyElement, ...]:
        """Its elements."""
        return self.elements

    @property
    def needs(self) -> Collection[str]:
        """All columns: they go on."""
        return [*self.rows.names, *(each.column for each in self.elements if each.column)]

    @property
    def emits(self) -> pa.Schema:
        """The rows, and the value."""
        return self.rows.append(pa.field(self.column, self.reading.column_type))

    def mapping(self, packing: Packing) -> Mapping:
        """The PState's."""
        return packing.mapping(self.pstate)

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for."""
        return {} if self.elsewhere else {self.pstate: vnodes}

    def prepared(
        self, rows: pa.Table, vnode_count: int, *, tracked: bool, singly: bool
    ) -> pa.Table:
        """The rows as they are, by the vnode of the first key."""
        found = vnodes(self, self.elements[:1], rows, vnode_count)
        return with_vnodes(chosen(rows, self.rows, tracked=tracked), found)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Read, a vnode at a time."""
        from atoll.steps.lookup.run import look_up

        if self.elsewhere:
            work.emit(self.tag, look_up(self, rows, work.view(self.pstate).vnode))
        else:
            found = look_up(self, rows, lambda vnode: work.writer(self.pstate, vnode))
            work.emit(self.tag, found)


def lookup_schema(step: Lookup, rows: pa.Schema) -> pa.Schema:
    """The rows' columns, and the value.

    Raises:
        DeclarationError: When a row cannot say the value, or has a column of that name.
    """
    value = pa.field(step.column, value_type(step.target.node, step))
    return distinct_columns(rows.append(value), step)


def bound_lookup(
    step: Lookup, name: StepName, rows: pa.Schema, spec: PStateSpec, own: Collection[str]
) -> BoundLookup:
    """A lookup of a PState that is bound already.

    Args:
        step: As declared.
        name: Its name.
        rows: The columns that reach it.
        spec: The PState.
        own: The PStates that its topology writes.

    Raises:
        DeclarationError: When a key is no column of the rows, or of another type.
    """
    elements = elements_of(step.target, step.keys, rows, step)
    pstate = step.target.pstate.name
    reading = _reading(step, spec)
    return BoundLookup(*name, pstate, elements, reading, step.column, rows, pstate not in own)


def _reading(step: Lookup, spec: PStateSpec) -> Reading:
    target = step.target
    if target.is_element:
        return ElementReading()
    if target.is_as_of:
        time = target.parts[-1].key
        assert time is not None
        return AsOfReading(spec.codec(target.position), time)
    if target.node.leaf:
        return LeafReading(spec.codec(target.position), spec.initial_bytes)
    return WholeReading(spec, target.node, target.position)
