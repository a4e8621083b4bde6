"""Add or replace columns: ``stream.with_columns(month="substr(at, 1, 7)")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import is_computed, shown_as, with_replaced
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True, eq=False)
class WithColumns(ColumnOperator):
    """All expressions see the columns as they were before the step."""

    compiles: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    expressions: tuple[tuple[str, str], ...]
    serves: str | None = None
    """The step whose expressions these are, where the user wrote no ``with_columns``."""

    @property
    def title(self) -> str:
        """As users write it: the step that needs the columns."""
        return self.serves or "with_columns"

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return tuple(text for _, text in self.expressions)

    def in_task(self, rows: pa.Schema, made: pa.Schema | None = None) -> BatchOperator:
        """Its expressions, computed."""
        from atoll.steps.columns.computing import adding

        return adding(self, self.expressions, rows, made)

    @property
    def caption(self) -> str:
        """As drawings call it: by the step that needs the columns."""
        return super().caption if self.serves is None else f"columns of {self.serves}"

    @property
    def computed(self) -> tuple[tuple[str, str], ...]:
        """Its columns with what they are."""
        return tuple((shown_as(name, text), text) for name, text in self.expressions)

    @property
    def is_hidden(self) -> bool:
        """Whether all its columns were made for another step."""
        return all(map(is_computed, dict(self.expressions)))

    @property
    def why_spark(self) -> str:
        """By what it computes."""
        return f"computes {self.expressions[0][1]!r}, which only Spark can"

    @property
    def without_spark(self) -> str:
        """Keys and arguments of other steps may be columns."""
        if self.serves is None:
            return super().without_spark
        return "compute it as a column before: map(function, emits=...)"

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].selectExpr(*with_replaced(frames[0].columns, dict(self.expressions)))
