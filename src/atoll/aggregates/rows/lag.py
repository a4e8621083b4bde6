"""``agg.lag``: the value of an earlier row of the same key; a column of ``over`` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, expression
from atoll.aggregates.rows.columns import check_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.errors import DeclarationError
    from atoll.schema import Node


@dataclass(frozen=True)
class Lag(Aggregator):
    """The value that the ``back``-th row before this one has; null where there is none."""

    back: int = 1

    word: ClassVar[str] = "lag"
    combines: ClassVar[bool] = False

    def __str__(self) -> str:
        """How far back."""
        return f"{self.word}({self.inputs[0]}, {self.back})"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The schema of the value."""
        from atoll.arrow_types import node_of

        return node_of(input_types[0])

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002 - none
        """Into nothing: it looks at rows, and folds none."""
        raise self.misplaced()

    def misplaced(self) -> DeclarationError:
        """What to say of it wherever rows are folded."""
        return self.refusal(
            "folds nothing: it is a column beside each row",
            'write stream.over("key", before=agg.lag("value"))',
        )

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """Never: it is refused where rows are folded."""
        raise NotImplementedError

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """Never."""
        raise NotImplementedError

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """Never."""
        raise NotImplementedError


def lag(expr: str, back: int = 1) -> Lag:
    """The value of an earlier row of the same key: ``stream.over("k", before=agg.lag("v"))``.

    Args:
        expr: The value; null where there is no such row.
        back: How many rows before.

    Raises:
        DeclarationError: When ``back`` is not positive.
    """
    check_count(back, "lag")
    return Lag((expression(expr, "lag"),), back)
