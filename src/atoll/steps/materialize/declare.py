"""Compute rows once and use them several times: ``stream.materialize()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration


@dataclass(frozen=True, eq=False)
class Materialize(StateOperator):
    """Stages the rows; the steps after it run in a later job and read what was staged.

    It ends on the actors like a state step, but touches no state, and any actor may take its
    rows. They live as long as the attempt, and keep the order of the tasks that had them.
    """

    keeps_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """The rows as they came."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's."""
        return inputs[0]

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step, of which any actor takes rows."""
        from atoll.steps.materialize.bind import BoundMaterialize

        return (BoundMaterialize(*binding.name(self), binding.rows(self)),)
