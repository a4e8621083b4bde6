"""``agg.bool_and`` and ``agg.bool_or``: whether a condition holds for every row, or for some.

As in Spark, nulls are left out, and nothing but nulls gives null: a condition that is unknown
for a row says nothing about the others. False is less than True, so these are the extremes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import expression, in_words
from atoll.aggregates.totals.extremes import Extreme
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.schema import Node


@dataclass(frozen=True)
class _Truth(Extreme):
    """What both share: conditions in, a condition out."""

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A bool; null where all inputs are."""
        self._condition(input_types)
        return Scalar("bool", optional=True)

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a bool."""
        self._condition(input_types)
        if not (isinstance(node, Scalar) and node.kind == "bool"):
            raise self.refusal(f"gives a bool, the PState holds {node}", "declare bool there")

    def _condition(self, input_types: Sequence[pa.DataType]) -> None:
        from atoll.arrow_types import kind_of

        if kind_of(input_types[0]) != "bool":
            raise self.refusal(
                f"needs a condition, its input is {in_words(input_types[0])}",
                f'compare it with something: agg.{self.word}("{self.inputs[0]} > 0")',
            )


@dataclass(frozen=True)
class BoolAnd(_Truth):
    """Whether all values are true."""

    word: ClassVar[str] = "bool_and"
    greatest: ClassVar[bool] = False


@dataclass(frozen=True)
class BoolOr(_Truth):
    """Whether some value is true."""

    word: ClassVar[str] = "bool_or"
    greatest: ClassVar[bool] = True


def bool_and(expr: str) -> BoolAnd:
    """Whether the condition ``expr`` holds for every row for which it is not null."""
    return BoolAnd((expression(expr, "bool_and"),))


def bool_or(expr: str) -> BoolOr:
    """Whether the condition ``expr`` holds for some row."""
    return BoolOr((expression(expr, "bool_or"),))
