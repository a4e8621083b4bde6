"""Fold rows into a PState: ``stream.aggregate(totals["user_id"], agg.sum("price"))``.

Partial aggregates are built where the rows are, cross the exchange, and are merged into the state
on the actor that owns the key's vnode. Several aggregates at one place form a struct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.aggregates.base import Aggregator
    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding, Kept
    from atoll.topology.declared import PStateDeclaration, Target


@dataclass(frozen=True, slots=True)
class AggregateField:
    """One aggregate at the target: of the whole value (``name`` None) or of a struct's field."""

    name: str | None
    aggregator: Aggregator
    columns: tuple[str | None, ...]
    """The columns of the input that hold the aggregator's inputs, in its order.

    None stands for the constant ``true``, which needs no column: every row counts.
    """


@dataclass(frozen=True, eq=False)
class Aggregate(StateOperator):
    """Merges each row into the entry that its keys name.

    ``keys`` are the columns of the input that hold the target's keys, in path order; for a
    ``collect_set`` the last one holds the element.
    """

    target: Target
    keys: tuple[str, ...]
    fields: tuple[AggregateField, ...]
    deletes: bool = False
    """Whether its rows delete the entries."""
    by_session: bool = False
    """Whether entries are sessions, the last keys their start and end: those that meet are one."""

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """The PState that it merges into."""
        return (self.target.pstate,)

    @property
    def emits(self) -> bool:
        """Nothing: the changes of the PState are a stream of their own."""
        return False

    @property
    def detail(self) -> str:
        """What it folds into."""
        return self.target.text

    def keeps(self, inputs: Sequence[pa.Schema]) -> tuple[Kept, ...]:
        """What its aggregates keep beside what readers see."""
        from atoll.steps.aggregate.bind import kept_by

        return kept_by(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.aggregate.bind import bound_aggregate

        return (bound_aggregate(self, binding),)
