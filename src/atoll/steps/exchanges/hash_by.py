"""Bring rows with equal keys to one task: ``stream.hash_by("user_id")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class HashBy(ColumnOperator):
    """An exchange by the hash of one or more expressions.

    State steps need none: they exchange rows by vnode themselves. This one is for ``map_batches``
    or ``transform`` steps that want all rows of a key together.
    """

    keeps_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    expressions: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return self.expressions

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """CRC-32 of the values' text, placed by identity, so that no two engines differ in it."""
        frame = frames[0]
        values = ", ".join(f"coalesce(cast(({e}) AS string), '')" for e in self.expressions)
        unit = f"cast(crc32(cast(concat_ws('\\u0000', {values}) AS binary)) % {parallelism} AS int)"
        placed = frame.selectExpr("*", f"{unit} AS `__unit`")
        return placed.repartitionById(parallelism, placed["__unit"]).drop("__unit")
