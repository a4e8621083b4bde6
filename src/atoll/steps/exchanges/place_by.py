"""Rows to the task, or the vnode, of a number: ``stream.to_vnode("user_id % 8")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class PlaceBy(ColumnOperator):
    """An exchange by a number, taken modulo the number of tasks; null counts as 0.

    A ``process`` without a key right behind it runs on the vnode of that number, modulo the
    number of vnodes. ``word`` is the method that made it; ``drops`` says whether the expression
    is a column that was made for it.
    """

    keeps_rows: ClassVar[bool] = True
    instead: ClassVar[str] = "a query runs in one process: leave the step out"

    expression: str
    word: str
    drops: bool = False

    @property
    def title(self) -> str:
        """As users write it."""
        return self.word

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return (self.expression,)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """Placed by identity, so that no two engines differ in it."""
        number = f"cast(coalesce(({self.expression}), 0) AS bigint)"
        unit = f"cast(pmod({number}, {parallelism}) AS int) AS `__unit`"
        placed = frames[0].selectExpr("*", unit)
        made = (self.expression,) if self.drops else ()
        return placed.repartitionById(parallelism, placed["__unit"]).drop("__unit", *made)
