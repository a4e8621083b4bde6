"""Bring all rows of a microbatch to one task: ``stream.to_global()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class ToGlobal(ColumnOperator):
    """An exchange to a single task, for steps that must see every row of the microbatch."""

    keeps_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """Spark's ``repartition(1)``: an exchange, so that the steps before it stay parallel."""
        return frames[0].repartition(1)
