"""Keep the rows for which a condition holds: ``stream.where("price > 100")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Where"]


@dataclass(frozen=True, eq=False)
class Where(ColumnOperator):
    """A condition that is NULL drops the row, as in SQL."""

    condition: str

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow filter."""
        return frames[0].where(self.condition)
