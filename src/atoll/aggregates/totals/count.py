"""``agg.count()`` counts rows, ``agg.count(expr)`` those whose value is not null.

``agg.count_if(condition)`` counts the rows for which a condition holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, expression
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


EVERY_ROW = "true"
"""The input of ``count()``: one bit per row, so that the number of rows is known."""


@dataclass(frozen=True)
class Count(Aggregator):
    """Counts; never null."""

    word: ClassVar[str] = "count"
    null_skips: ClassVar[int | None] = 0

    def __str__(self) -> str:
        """``count()`` where every row counts."""
        return "count()" if self.inputs == (EVERY_ROW,) else super().__str__()

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:  # noqa: ARG002 - any
        """An int."""
        return Scalar("int")

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002 - any
        """Into an int."""
        if not (isinstance(node, Scalar) and node.kind == "int"):
            raise self.refusal(f"gives an int, the PState holds {node}", "declare int there")

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - int
        """One where the value is present, else zero."""
        from atoll.aggregates.kernels.segments import ones, present_rows

        return [ones(present_rows(columns[0]))]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The sum of the counts."""
        from atoll.aggregates.kernels.sums import sum_groups

        return [sum_groups(states[0], starts, self)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The sum of both."""
        from atoll.aggregates.kernels.sums import add_columns

        return [add_columns(old[0], new[0], self)]


def count(expr: str | None = None) -> Count:
    """Count rows, or the rows where ``expr`` is not null."""
    return Count((EVERY_ROW if expr is None else expression(expr, "count"),))


def count_if(condition: str) -> Count:
    """Count the rows for which a condition holds."""
    return count().where(expression(condition, "count_if"))
