"""Choose and compute columns: ``stream.select("id", "price * 2 AS double_price")``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import bare_column, has_star, named, quoted
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
    def picked(self) -> tuple[tuple[str, str], ...] | None:
        """The columns and their new names, when nothing is computed; else None."""
        pairs = [named(each) for each in self.expressions]
        columns = [(bare_column(text), name) for text, name in pairs]
        found = tuple((column, name) for column, name in columns if column is not None)
        return found if found and len(found) == len(columns) else None

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return self.expressions

    @property
    def picks(self) -> bool:
        """Whether nothing is computed."""
        return self.picked is not None

    def carrying(self, column: str, names: Sequence[str]) -> ColumnOperator | None:
        """The step with the column behind those that it keeps; a star is what users know."""
        visible = [quoted(name) for name in names]
        wanted: list[str] = []
        for each in self.expressions:
            wanted.extend(visible if each.strip() == "*" else [each])
        if any(map(has_star, wanted)):
            return None
        return replace(self, expressions=(*wanted, column))

    def in_task(self, inputs: Sequence[pa.Schema], made: pa.Schema) -> BatchOperator:
        """Columns by position, or its expressions, computed."""
        from atoll.steps.columns.computing import computing
        from atoll.steps.columns.picking import Pick

        return Pick.of(self, inputs[0], made) if self.picks else computing(self, inputs[0], made)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].selectExpr(*self.expressions)
