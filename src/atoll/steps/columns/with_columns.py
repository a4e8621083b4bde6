"""Add or replace columns: ``stream.with_columns(month="substr(at, 1, 7)")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import shown_as, with_replaced
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True, eq=False)
class WithColumns(ColumnOperator):
    """All expressions see the columns as they were before the step."""

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

    def in_task(self, rows: pa.Schema, made: pa.Schema) -> BatchOperator:
        """Its expressions, computed."""
        from atoll.steps.columns.computing import computing

        return computing(self, rows, made)

    @property
    def caption(self) -> str:
        """As drawings call it: by the step that needs the columns."""
        return super().caption if self.serves is None else f"columns of {self.serves}"

    @property
    def computed(self) -> tuple[tuple[str, str], ...]:
        """Its columns with what they are."""
        return tuple((shown_as(name, text), text) for name, text in self.expressions)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].selectExpr(*with_replaced(frames[0].columns, dict(self.expressions)))
