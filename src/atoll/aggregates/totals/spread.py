"""``agg.variance``, ``agg.stddev`` and both over the whole population: how far values lie apart.

As Spark's functions of these names. Nulls are left out. Of n values, ``variance`` and ``stddev``
take them as a sample and divide by n - 1, so of one value they are null; ``var_pop`` and
``stddev_pop`` divide by n. Where a value is infinite or NaN, the result is NaN.

The state is a count, the mean, and the sum of the squared distances from it, which may be merged
without losing digits where the mean is large beside the distances (a sum of squares would). Floats
are added, so the last digits depend on how microbatches were cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, expression, in_words
from atoll.aggregates.finish import Finish, kind_of_node
from atoll.aggregates.totals.sums import NUMBERS
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


_MEASURES = {
    "var_samp": (1, False),
    "stddev_samp": (1, True),
    "var_pop": (0, False),
    "stddev_pop": (0, True),
}
"""By Spark's full names how many the count is lessened by, and whether a root is taken."""


class Spread(Finish):
    """Of a count, a mean and a sum of squared distances the measure that is hidden."""

    word: ClassVar[str] = "spread"
    keeps: ClassVar[str] = "a count, a mean and the squared distances from it"

    def suits(self) -> bool:
        """Floats."""
        return self.hidden in _MEASURES and kind_of_node(self.node) == "float"

    @property
    def state(self) -> tuple[Scalar | None, ...]:
        """The three."""
        return Scalar("int"), Scalar("float"), Scalar("float")

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The measure of each row."""
        from atoll.aggregates.kernels.spread import measured

        lessened, root = _MEASURES[str(self.hidden)]
        return measured(columns[0], columns[2], lessened, root=root)

    def value(self, cells: Sequence[Any]) -> Any:
        """The measure of one row; null of too few values."""
        count, _, squares = cells
        lessened, root = _MEASURES[str(self.hidden)]
        if not count or count <= lessened:
            return None
        variance = squares / (count - lessened)
        return math.sqrt(variance) if root else variance


@dataclass(frozen=True)
class Deviation(Aggregator):
    """How far the values that are not null lie apart."""

    measure: str = "var_samp"
    called: str = "variance"
    """The function of ``atoll.agg`` that made it."""

    word: ClassVar[str] = "variance"
    null_skips: ClassVar[int | None] = 0

    def __str__(self) -> str:
        """As written."""
        return f"{self.called}({self.inputs[0]})"

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - all alike
        """With the measure."""
        return Spread.text(self.measure)

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A float; null of too few values."""
        self._check_numbers(input_types)
        return Scalar("float", optional=True)

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Numbers, into a float."""
        self._check_numbers(input_types)
        if not (isinstance(node, Scalar) and node.kind == "float"):
            raise self.refusal(f"gives a float, the PState holds {node}", "declare float there")

    def _check_numbers(self, input_types: Sequence[pa.DataType]) -> None:
        from atoll.arrow_types import kind_of

        if kind_of(input_types[0]) not in NUMBERS:
            raise self.refusal(
                f"needs numbers, its input is {in_words(input_types[0])}", "cast it to a number"
            )

    def state_types(
        self,
        node: Node,  # noqa: ARG002 - always a float
        input_types: Sequence[pa.DataType],  # noqa: ARG002 - all alike
    ) -> tuple[pa.DataType, ...]:
        """The count, the mean and the squared distances."""
        import pyarrow as pa

        return pa.int64(), pa.float64(), pa.float64()

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - float
        """One value at no distance from itself; nothing where it is null."""
        from atoll.aggregates.kernels.spread import lifted

        return lifted(columns[0])

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """All of a group's at once."""
        from atoll.aggregates.kernels.spread import reduced

        return reduced(states, starts)

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """Both together."""
        from atoll.aggregates.kernels.spread import merged

        return merged(old, new)


def variance(expr: str) -> Deviation:
    """The variance of the values of ``expr`` as a sample of all: divided by one less than n."""
    return Deviation((expression(expr, "variance"),), "var_samp", "variance")


def stddev(expr: str) -> Deviation:
    """The standard deviation of the values of ``expr`` as a sample: the root of the variance."""
    return Deviation((expression(expr, "stddev"),), "stddev_samp", "stddev")


def var_pop(expr: str) -> Deviation:
    """The variance of the values of ``expr`` as all there are: divided by n."""
    return Deviation((expression(expr, "var_pop"),), "var_pop", "var_pop")


def stddev_pop(expr: str) -> Deviation:
    """The standard deviation of the values of ``expr`` as all there are: the root of `var_pop`."""
    return Deviation((expression(expr, "stddev_pop"),), "stddev_pop", "stddev_pop")
