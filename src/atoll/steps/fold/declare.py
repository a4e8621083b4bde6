"""Atoll's aggregates over the rows of a microbatch: ``group_by("k").agg(total=agg.sum("v"))``.

As ``aggregate`` folds rows into a PState, this folds them into rows: partial aggregates are built
where the rows are, cross the exchange, and are merged on an actor. Nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.steps.aggregate.declare import AggregateField
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Fold(StateOperator):
    """One row per combination of the keys: the keys' columns, then one per aggregate.

    Without keys one row in all, also of no rows: the step *fires* in every microbatch. ``keys``
    are columns of the input; every field has a name.
    """

    in_queries: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = False

    keys: tuple[str, ...]
    fields: tuple[AggregateField, ...]

    @property
    def title(self) -> str:
        """As users write it."""
        return "agg"

    @property
    def fires(self) -> bool:
        """Whether a row comes out although none came in."""
        return not self.keys

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """One row per group."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The keys' columns as they are, then one per aggregate."""
        from atoll.steps.fold.bind import fold_schema

        return fold_schema(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.fold.bind import bound_fold

        return (bound_fold(self, binding.name(self), binding.rows(self)),)

    def in_query(self, query: InQuery) -> Done:
        """Of all rows."""
        from atoll.steps.fold.in_query import folds

        return folds(self, query)
