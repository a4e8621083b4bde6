"""Spread rows evenly over the tasks: ``stream.shuffle()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class Shuffle(ColumnOperator):
    """A round-robin exchange; it ends the append order of the rows."""

    keeps_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """Spark's ``repartition`` without columns."""
        return frames[0].repartition(parallelism)
