"""Rows of several streams with the same columns, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Union"]


@dataclass(frozen=True, eq=False)
class Union(ColumnOperator):
    """Spark's ``unionByName``: columns are matched by name; duplicates stay."""

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """A narrow union; the order between the streams is not defined."""
        united = frames[0]
        for frame in frames[1:]:
            united = united.unionByName(frame)
        return united
