"""One row per element of an array or entry of a map: ``stream.explode("words", "word")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.topology.expressions import quoted
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Explode"]


@dataclass(frozen=True, eq=False)
class Explode(ColumnOperator):
    """Spark's ``explode`` (or ``explode_outer``), the other columns kept.

    ``names`` is one name for an array's element, two for a map's key and value.
    """

    expression: str
    names: tuple[str, ...]
    outer: bool

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow generator; a column of the same name gives way to the new one."""
        function = "explode_outer" if self.outer else "explode"
        kept = [quoted(name) for name in frames[0].columns if name not in self.names]
        names = ", ".join(quoted(name) for name in self.names)
        return frames[0].selectExpr(*kept, f"{function}({self.expression}) AS ({names})")
