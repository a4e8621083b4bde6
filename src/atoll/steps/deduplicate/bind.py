"""``deduplicate`` as tasks run it, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.engine.binding.keys import column_type
from atoll.engine.exchange.keyed import KeyElement, WholeRowStep
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar, Set
from atoll.steps.folding.fields import key_kind
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from atoll.engine.step import Opening, Packing, Work
    from atoll.placement.mapping import Mapping
    from atoll.steps.deduplicate.declare import Deduplicate
    from atoll.topology.binding import StepName
    from atoll.topology.operator import Makes
    from atoll.topology.times import Clock


@dataclass(frozen=True)
class BoundDeduplicate(WholeRowStep):
    """Let rows pass of which no other with the same key did within a time.

    Entries of ``passed`` are keys, with ``within_ms`` the time behind them; those of ``times`` the
    same with the time before them, so that the first ones are forgotten first.
    """

    passed: str
    times: str | None
    elements: tuple[KeyElement, ...]
    column: str | None
    within_ms: int | None
    clock: Clock
    rows: pa.Schema
    emitted: pa.Schema

    gives: ClassVar[Makes] = "at most one"

    @property
    def agenda(self) -> tuple[str, Clock] | None:
        """What is forgotten next."""
        return None if self.times is None else (self.times, self.clock)

    @property
    def pstates(self) -> tuple[str, ...]:
        """Both."""
        return (self.passed,) if self.times is None else (self.passed, self.times)

    @property
    def emits(self) -> pa.Schema:
        """The rows."""
        return self.emitted

    @property
    def runs_without_rows(self) -> bool:
        """When there is something to forget."""
        return self.times is not None

    def mapping(self, packing: Packing) -> Mapping:
        """The PStates'."""
        return packing.mapping(self.passed)

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for, and those in which there is something to forget."""
        due = set() if self.times is None else opening.due(self.times)
        return dict.fromkeys(self.pstates, vnodes | due)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Forget what is due, and let rows pass."""
        from atoll.steps.deduplicate.run import passing

        out, agenda = passing(self, rows, work)
        if self.times is not None:
            work.agenda[self.times] = agenda
        work.emit(self.tag, out)


def passing_schema(step: Deduplicate, rows: pa.Schema) -> pa.Schema:
    """The columns that users know.

    Raises:
        DeclarationError: When a key is no column, or none that can be a key.
    """
    _elements(step, rows)
    return pa.schema([field for field in rows if field.name not in step.computed])


def seen_specs(step: Deduplicate, rows: pa.Schema) -> dict[str, PStateSpec]:
    """The step's PStates, with the schemas that the types give them.

    Raises:
        DeclarationError: As :func:`passing_schema`.
    """
    kinds = [each.kind for each in _elements(step, rows)]
    orders: list[list[Scalar]] = [kinds]
    if step.within_ms is not None:
        orders = [[*kinds, Scalar("int")], [Scalar("int"), *kinds]]
    pairs = zip(step.states, orders, strict=True)
    return {
        declared.name: pstate_spec(replace(declared, node=_nested(order)), {})
        for declared, order in pairs
    }


def bound_deduplicate(step: Deduplicate, name: StepName, rows: pa.Schema) -> BoundDeduplicate:
    """The step as tasks run it.

    Raises:
        DeclarationError: As :func:`passing_schema`.
    """
    return BoundDeduplicate(
        *name,
        step.states[0].name,
        None if step.within_ms is None else step.states[1].name,
        _elements(step, rows),
        step.column,
        step.within_ms,
        step.clock,
        rows,
        passing_schema(step, rows),
    )


def _elements(step: Deduplicate, rows: pa.Schema) -> tuple[KeyElement, ...]:
    for name in step.keys:
        column_type(rows, name, step)
    with placed(step.place):
        return tuple(KeyElement(name, None, key_kind(rows.field(name))) for name in step.keys)


def _nested(order: Sequence[Scalar]) -> Node:
    """Entries that have these elements, and no values."""
    node: Node = Set(order[-1])
    for each in reversed(order[:-1]):
        node = Map(each, node)
    return node
