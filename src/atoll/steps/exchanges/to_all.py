"""Each row to every task, or to every vnode: ``stream.to_all()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import EXCHANGED, ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class ToAll(ColumnOperator):
    """An exchange that copies. A ``process`` without a key right behind it runs on every vnode."""

    steers: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True
    instead: ClassVar[str] = "a query runs in one process: leave the step out"

    @property
    def without_spark(self) -> str:
        """Nothing."""
        return EXCHANGED

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """A copy per task, placed by identity."""
        unit = f"explode(sequence(0, {parallelism - 1})) AS `__unit`"
        copied = frames[0].selectExpr("*", unit)
        return copied.repartitionById(parallelism, copied["__unit"]).drop("__unit")
