"""``agg.count_distinct``: how many distinct values there are, exactly.

What a key holds is a number. The values themselves are entries of a private PState of the step,
so a key may have any number of them, and a microbatch reads and writes only those that it brings.
Where it is declared it is taken apart: first the values that are new are found, by value, on all
actors; then they are counted by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, expression, in_words
from atoll.aggregates.compound import Compound
from atoll.aggregates.totals.count import EVERY_ROW, Count
from atoll.errors import DeclarationError
from atoll.schema import Scalar

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


FLAGS_MAX = 63
"""As many counts share what they keep as an int has bits beside its sign."""


@dataclass(frozen=True)
class CountDistinct(Compound):
    """Counts values. ``inputs`` are the value, and a condition where it has one."""

    name: str | None = None
    """What the user called what it keeps."""

    word: ClassVar[str] = "count_distinct"

    @property
    def condition(self) -> str | None:
        """Which rows count; None for all."""
        return self.inputs[1] if len(self.inputs) > 1 else None

    def __str__(self) -> str:
        """As the user wrote it, the condition named."""
        where = "" if self.condition is None else f" where {self.condition}"
        return f"count_distinct({self.inputs[0]}){where}"

    def where(self, condition: str) -> CountDistinct:
        """Only rows for which a condition holds."""
        test = expression(condition, "where")
        if self.condition is not None:
            test = f"({self.condition}) AND ({test})"
        return CountDistinct((self.inputs[0], test), self.name)

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:  # noqa: ARG002 - any
        """An int.

        Raises:
            DeclarationError: Always: only ``aggregate`` into a PState takes it apart.
        """
        raise DeclarationError(
            f"agg.{self} keeps its values in a PState, and there is none here",
            hint=f'use agg.approx_count_distinct("{self.inputs[0]}")',
        )

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002
        """Into an int."""
        if not (isinstance(node, Scalar) and node.kind == "int"):
            raise self.refusal(f"gives an int, the PState holds {node}", "declare int there")


@dataclass(frozen=True)
class Zero(Count):
    """No rows counted yet: what a distinct count writes beside the other aggregates of a row."""

    def __str__(self) -> str:
        """As the user wrote it."""
        return "count_distinct"

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - int
        """Zero."""
        import numpy as np

        from atoll.aggregates.kernels.segments import ones

        return [ones(np.zeros(len(columns[0]), np.bool_))]

    @classmethod
    def counts(cls) -> Zero:
        """One that asks for no column."""
        return cls((EVERY_ROW,))


@dataclass(frozen=True)
class Flags(Aggregator):
    """Which of its conditions have held for some row: a bit for each, in one int."""

    word: ClassVar[str] = "flags"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:  # noqa: ARG002 - bools
        """An int."""
        return Scalar("int")

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002 - int
        """Conditions all of them."""
        for text, kind in zip(self.inputs, input_types, strict=True):
            if str(kind) != "bool":
                raise DeclarationError(
                    f"agg.count_distinct counts where {text}, which is {in_words(kind)} and no "
                    "condition",
                    hint='compare it with something: where("amount < 0")',
                )

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - int
        """The bits of each row."""
        from atoll.aggregates.kernels.flags import flags_of

        return [flags_of(columns)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The bits that some row has."""
        from atoll.aggregates.kernels.flags import any_of_groups

        return [any_of_groups(states[0], starts)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The bits of either."""
        from atoll.aggregates.kernels.flags import either

        return [either(old[0], new[0])]


def count_distinct(expr: str, *, name: str | None = None) -> CountDistinct:
    """How many distinct values of ``expr`` there are, nulls left out; exactly, into an ``int``.

    Args:
        expr: What is counted.
        name: What to call the values that it keeps, where two counts would not be told apart.
    """
    return CountDistinct((expression(expr, "count_distinct"),), name)
