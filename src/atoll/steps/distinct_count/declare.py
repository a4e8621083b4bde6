"""Values that a key has not had before: the first half of ``agg.count_distinct``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.aggregates.totals.count_distinct import Flags
    from atoll.engine.step import BoundStep
    from atoll.pstate.spec import PStateSpec
    from atoll.topology.binding import Binding
    from atoll.topology.declared import Part, PStateDeclaration


@dataclass(frozen=True, eq=False)
class FirstSeen(StateOperator):
    """One row per key and value that is new for some count: the key, and for which it is.

    ``state`` has an entry for each value and key, of which the schema is found from the types
    that reach the step: a bit for each count that has seen it. It is placed by the value, so
    that one key with most of the rows does not make one actor do the work of all.
    """

    keeps_records: ClassVar[bool] = False

    value: str
    keys: tuple[str, ...]
    parts: tuple[Part, ...]
    """What the keys are in the PState that is counted into."""
    flags: Flags
    conditions: tuple[str | None, ...]
    """For each count the column that says whether a row counts; None: every row does."""
    state: PStateDeclaration

    @property
    def title(self) -> str:
        """As users write it."""
        return "count_distinct"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return (self.state,)

    @property
    def emits(self) -> bool:
        """One row per key and new value."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The keys, then a column for each count."""
        from atoll.steps.distinct_count.bind import first_seen_schema

        return first_seen_schema(self, inputs[0])

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """What it has seen."""
        from atoll.steps.distinct_count.bind import first_seen_spec

        return {self.state.name: first_seen_spec(self, inputs[0])}

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.distinct_count.bind import bound_first_seen

        return (bound_first_seen(self, binding.name(self), binding.rows(self)),)

    def key_name(self, number: int) -> str:
        """The column of a key in the rows that it emits."""
        return f"__k{number}"

    def new_name(self, number: int) -> str:
        """The column that says whether the value is new for a count; null where it is not."""
        return f"__new{number}"
