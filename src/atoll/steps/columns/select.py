"""Choose and compute columns: ``stream.select("id", "price * 2 AS double_price")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.expressions import bare_column, named
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Select"]


@dataclass(frozen=True, eq=False)
class Select(ColumnOperator):
    """Spark's ``selectExpr``: each expression may carry an ``AS name``."""

    expressions: tuple[str, ...]

    @property
    def picked(self) -> tuple[tuple[str, str], ...] | None:
        """The columns and their new names, when nothing is computed; else None."""
        pairs = [named(each) for each in self.expressions]
        columns = [(bare_column(text), name) for text, name in pairs]
        found = tuple((column, name) for column, name in columns if column is not None)
        return found if found and len(found) == len(columns) else None

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].selectExpr(*self.expressions)
