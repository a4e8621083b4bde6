"""Aggregates by key and window of event time: ``windowed.aggregate_windows("user", n=...)``.

Partial states are kept in private PStates over the microbatches, and each window gives its rows
when the watermark has passed its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.aggregate.declare import AggregateField
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.times import Clock


@dataclass(frozen=True, eq=False)
class WindowAgg(StateOperator):
    """One row per combination of the keys and window: keys, start, end, one per aggregate.

    ``states`` is the windows' PState, of which the schema is found from the types that reach
    the step; for sessions also that of their states.
    """

    keeps_records: ClassVar[bool] = False

    keys: tuple[str, ...]
    fields: tuple[AggregateField, ...]
    states: tuple[PStateDeclaration, ...]
    clock: Clock
    lateness_ms: int

    @property
    def title(self) -> str:
        """As users write it."""
        return "aggregate_windows"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return self.states

    @property
    def emits(self) -> bool:
        """One row per window, and one more when rows that came late changed it."""
        return True

    @property
    def holds_back(self) -> bool:
        """Until windows close."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The keys' columns, start and end of the window, then one column per aggregate."""
        from atoll.steps.windows.bind import window_schema

        return window_schema(self, inputs[0])

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """The windows; of sessions an index of their ends, and their states."""
        from atoll.steps.windows.bind import window_specs

        return window_specs(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.windows.bind import bound_windows

        return (bound_windows(self, binding.name(self), binding.rows(self)),)
