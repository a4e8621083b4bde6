"""``agg.min`` and ``agg.max``: the least and the greatest value, nulls left out.

Order is Spark's: text by code point, NaN greater than every other float, -0.0 equal to 0.0,
False before True, tuples member by member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, expression, in_words, to_declare
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


@dataclass(frozen=True)
class Extreme(Aggregator):
    """What :class:`Min` and :class:`Max` share. Of equal values the one that came first stays."""

    greatest: ClassVar[bool]
    null_skips: ClassVar[int | None] = 0

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The kind of the input; null where all inputs are."""
        from atoll.arrow_types import node_of

        node = node_of(input_types[0])
        if not isinstance(node, Scalar):
            raise self.refusal(
                f"needs values with an order, its input is {in_words(input_types[0])}",
                "name one member of it",
            )
        return node

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a scalar that holds the input's values."""
        from atoll.aggregates.kernels.types import accepts

        if not (isinstance(node, Scalar) and accepts(node, input_types[0])):
            raise self.refusal(
                f"of {in_words(input_types[0])} does not fit a PState of {node}",
                to_declare(input_types[0]),
            )

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """The value itself, widened to the leaf's type."""
        from atoll.aggregates.kernels.types import fitted

        return [fitted(columns[0], node, self, None)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The extreme of each group."""
        from atoll.aggregates.kernels.extremes import extreme_groups

        return [extreme_groups(states[0], starts, greatest=self.greatest)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The more extreme of both."""
        from atoll.aggregates.kernels.extremes import extreme_of_pairs

        return [extreme_of_pairs(old[0], new[0], greatest=self.greatest)]


@dataclass(frozen=True)
class Min(Extreme):
    """The least value."""

    word: ClassVar[str] = "min"
    greatest: ClassVar[bool] = False


@dataclass(frozen=True)
class Max(Extreme):
    """The greatest value."""

    word: ClassVar[str] = "max"
    greatest: ClassVar[bool] = True


def min(expr: str) -> Min:  # noqa: A001 - the name that SQL gives it; used as agg.min
    """The least value of ``expr`` that is not null."""
    return Min((expression(expr, "min"),))


def max(expr: str) -> Max:  # noqa: A001 - the name that SQL gives it; used as agg.max
    """The greatest value of ``expr`` that is not null."""
    return Max((expression(expr, "max"),))
