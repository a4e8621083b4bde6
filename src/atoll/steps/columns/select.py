"""Choose and compute columns: ``stream.select("id", "price * 2 AS double_price")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Select"]


@dataclass(frozen=True, eq=False)
class Select(ColumnOperator):
    """Spark's ``selectExpr``: each expression may carry an ``AS name``."""

    expressions: tuple[str, ...]

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].selectExpr(*self.expressions)
