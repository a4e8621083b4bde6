"""``agg.sum`` and ``agg.avg``: totals that never wrap.

Nulls are left out; the sum of nothing but nulls is null. Ints and decimals are summed exactly,
in whatever order they come; a total that its type cannot hold is an error. Floats are added in
arrival order, so the last digits of a total depend on how microbatches were cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, expression, in_words
from atoll.aggregates.finish import Finish, kind_of_node
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


NUMBERS = frozenset({"int", "float", "decimal"})


def _number_kind(aggregator: Aggregator, input_types: Sequence[pa.DataType]) -> str:
    from atoll.arrow_types import kind_of

    kind = kind_of(input_types[0])
    if kind in NUMBERS:
        return kind
    hint = "cast it to a number"
    if kind == "bool":
        hint = "to count rows for which it holds, write sum(cast(... as int))"
    raise aggregator.refusal(f"needs numbers, its input is {in_words(input_types[0])}", hint)


@dataclass(frozen=True)
class Sum(Aggregator):
    """The total of the values that are not null."""

    word: ClassVar[str] = "sum"
    null_skips: ClassVar[int | None] = 0

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The kind of the input; null where all inputs are."""
        return Scalar(_number_kind(self, input_types), optional=True)

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a number that holds the input's values."""
        from atoll.aggregates.kernels.types import accepts

        kind = _number_kind(self, input_types)
        if not (isinstance(node, Scalar) and node.kind in NUMBERS):
            raise self.refusal(f"gives a number, the PState holds {node}", f"declare {kind} there")
        if not accepts(node, input_types[0]):
            raise self.refusal(
                f"of {in_words(input_types[0])} does not fit a PState of {node}",
                f"declare {kind} there, or cast the expression",
            )

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """The value itself, widened to the leaf's type."""
        from atoll.aggregates.kernels.types import fitted

        return [fitted(columns[0], node, self, None)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The sum of the partial sums."""
        from atoll.aggregates.kernels.sums import sum_groups

        return [sum_groups(states[0], starts, self)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The sum of both."""
        from atoll.aggregates.kernels.sums import add_columns

        return [add_columns(old[0], new[0], self)]


class Mean(Finish):
    """Of a sum, of the hidden kind, and a count: their quotient; null where the count is 0."""

    word: ClassVar[str] = "avg"
    keeps: ClassVar[str] = "a sum and a count"
    hidden_default: ClassVar[str | None] = "float"

    def suits(self) -> bool:
        """Floats, of a sum of ints or floats."""
        return self.hidden in {"float", "int"} and kind_of_node(self.node) == "float"

    @property
    def state(self) -> tuple[Scalar | None, ...]:
        """The sum and the count."""
        return Scalar(self.hidden or "float"), Scalar("int")

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The quotients."""
        from atoll.aggregates.kernels.sums import means

        return means(*columns)

    def value(self, cells: Sequence[Any]) -> Any:
        """The quotient."""
        total, count = cells
        return float(total) / count if total is not None and count else None


@dataclass(frozen=True)
class Avg(Aggregator):
    """The mean of the values that are not null, kept as their sum and count.

    The sum of ints is kept as an int, so the mean is exact up to the last division.
    """

    word: ClassVar[str] = "avg"
    null_skips: ClassVar[int | None] = 0

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:
        """With the kind of the sum."""
        return Mean.text("int" if _number_kind(self, input_types) == "int" else "float")

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A float; null where all inputs are."""
        _number_kind(self, input_types)
        return Scalar("float", optional=True)

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a float."""
        _number_kind(self, input_types)
        if not (isinstance(node, Scalar) and node.kind == "float"):
            raise self.refusal(f"gives a float, the PState holds {node}", "declare float there")

    def state_types(
        self,
        node: Node,  # noqa: ARG002 - always a float
        input_types: Sequence[pa.DataType],
    ) -> tuple[pa.DataType, ...]:
        """The sum and the count."""
        from atoll.arrow_types import column_type

        kind = _number_kind(self, input_types)
        total = Scalar("int" if kind == "int" else "float")
        return column_type(total), column_type(Scalar("int"))

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - float
        """The value and one; null and zero where it is null."""
        from atoll.aggregates.kernels.segments import ones, present_rows
        from atoll.aggregates.kernels.types import fitted
        from atoll.arrow_types import kind_of

        (column,) = columns
        if kind_of(column.type) == "int":
            total = fitted(column, Scalar("int"), self, None)
        else:
            total = column.cast("float64", safe=False)
        return [total, ones(present_rows(column))]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The sums of both."""
        from atoll.aggregates.kernels.sums import sum_groups

        return [sum_groups(state, starts, self) for state in states]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The sums of both."""
        from atoll.aggregates.kernels.sums import add_columns

        return [add_columns(o, n, self) for o, n in zip(old, new, strict=True)]


def sum(expr: str) -> Sum:  # noqa: A001 - the name that SQL gives it; used as agg.sum
    """Add up the values of ``expr``, leaving out nulls.

    A total of ints beyond 64 bits is an error of the microbatch, never a wrong number.
    """
    return Sum((expression(expr, "sum"),))


def avg(expr: str) -> Avg:
    """The mean of the values of ``expr``, leaving out nulls."""
    return Avg((expression(expr, "avg"),))
