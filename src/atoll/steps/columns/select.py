"""Choose and compute columns: ``stream.select("id", "price * 2 AS double_price")``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import has_star, named, quoted
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True, eq=False)
class Select(ColumnOperator):
    """Spark's ``selectExpr``: each expression may carry an ``AS name``."""

    in_queries: ClassVar[bool] = True

    expressions: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return self.expressions

    def carrying(self, column: str, names: Sequence[str]) -> ColumnOperator | None:
        """The step with the column behind those that it keeps; a star is what users know."""
        visible = [quoted(name) for name in names]
        wanted: list[str] = []
        for each in self.expressions:
            wanted.extend(visible if each.strip() == "*" else [each])
        if any(map(has_star, wanted)):
            return None
        return replace(self, expressions=(*wanted, column))

    def in_task(self, rows: pa.Schema, made: pa.Schema) -> BatchOperator:
        """Its expressions, computed."""
        from atoll.steps.columns.computing import computing

        return computing(self, rows, made)

    @property
    def computed(self) -> tuple[tuple[str, str], ...]:
        """Its expressions, without their names."""
        pairs = ((text, named(text)[0]) for text in self.expressions)
        return tuple(pair for pair in pairs if pair[1] != "*")

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].selectExpr(*self.expressions)
