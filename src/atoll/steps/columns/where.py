"""Keep the rows for which a condition holds: ``stream.where("price > 100")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True, eq=False)
class Where(ColumnOperator):
    """A condition that is NULL drops the row, as in SQL."""

    keeps_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    condition: str

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return (self.condition,)

    def in_task(self, rows: pa.Schema, made: pa.Schema) -> BatchOperator:
        """Its expressions, computed."""
        from atoll.steps.columns.computing import computing

        return computing(self, rows, made)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow filter."""
        return frames[0].where(self.condition)
