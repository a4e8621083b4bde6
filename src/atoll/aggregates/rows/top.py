"""``agg.top_n``: the n rows of the greatest (or least) order, as a sorted list.

With ``id`` the latest row of each id stands for it. Only n rows are kept, so the list is right
as long as an id's order moves one way: up for the greatest, down for the least (a growing total,
a latest time). If an order may move back, keep all ids in a Map and take the top when reading.

Sorted by order; rows of equal order by what they show, least first, so the list depends on the
rows alone and not on how they were cut into microbatches. Rows whose order is null are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, Packing, expression, in_words
from atoll.aggregates.rows.columns import Columns, Shown, check_count, shown_columns
from atoll.errors import DeclarationError
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.kernels.top import Ranking
    from atoll.schema import Node


@dataclass(frozen=True)
class TopN(Aggregator):
    """Keeps the top rows, each with its order. ``inputs`` are the order, then what is shown."""

    count: int
    shown: Shown
    id_place: int | None = None
    """Which of the shown values tells rows of one thing apart from those of others."""
    descending: bool = True
    bound: tuple[Node, str] | None = None
    """The list's schema and the kind of the order, once bound."""
    packing: Packing | None = None
    with_ties: bool = False
    """Whether rows that are equal to the last one in order are kept, too."""

    word: ClassVar[str] = "top_n"
    null_skips: ClassVar[int | None] = 0

    def __str__(self) -> str:
        """The number and the order."""
        return f"{self.word}({self.count}, by={self.inputs[0]})"

    @property
    def finish(self) -> str:
        """A reader sees the rows without their order."""
        return "top"

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:
        """With the kind of the order."""
        return f"top:{self._order_kind(input_types)}"

    def _order_kind(self, input_types: Sequence[pa.DataType]) -> str:
        from atoll.aggregates.kernels.types import accepts
        from atoll.arrow_types import node_of

        node = node_of(input_types[0])
        if isinstance(node, Scalar) and accepts(node, input_types[0]):
            return node.kind
        raise self.refusal(
            f"cannot order rows by {in_words(input_types[0])}",
            "order by a number, a time or a text",
        )

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A list of structs, tuples or values."""
        return self.shown.result_node(self, input_types[1:])

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a list of what is shown."""
        self._order_kind(input_types)
        self.shown.check(self, node, input_types[1:])

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schema of the rows."""
        self.check(node, input_types)
        return replace(self, bound=(node, self._order_kind(input_types)), packing=packing)

    def state_types(
        self,
        node: Node,  # noqa: ARG002 - always opaque
        input_types: Sequence[pa.DataType],  # noqa: ARG002
    ) -> tuple[pa.DataType, ...]:
        """One column of packed rows, each with its order."""
        from atoll.arrow_types import OPAQUE

        return (OPAQUE,)

    @property
    def _ranking(self) -> Ranking:
        from atoll.aggregates.kernels.top import Ranking

        assert self.bound is not None, "top_n is bound before it runs"
        assert self.packing is not None, "top_n is bound before it runs"
        node, kind = self.bound
        return Ranking(self, node, kind, self.shown.nodes(self, node), self.packing)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """A list of one row, or of none where its order is null."""
        return [self._ranking.lift(columns)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The top of each group."""
        return [self._ranking.reduce(states[0], starts)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The top of both."""
        return [self._ranking.merge(old[0], new[0])]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """The top of each group; only rows that may be in it become Python values."""
        return [self._ranking.fold(columns, order, starts)]


def top_n(
    n: int,
    by: str,
    columns: Columns,
    id: str | None = None,  # noqa: A002 - the word for it; used by keyword
    *,
    descending: bool = True,
    with_ties: bool = False,
) -> TopN:
    """The ``n`` rows with the greatest ``by``, sorted: ``top_n(3, by="spent", columns={...})``.

    Args:
        n: How many rows to keep.
        by: The order.
        columns: What to show of each row: names and expressions for a ``List(Struct(...))``,
            several expressions for a ``List(tuple[...])``, one for a list of values.
        id: One of the names or expressions of ``columns``: only the latest row of each id
            counts. Without it every row counts.
        descending: Greatest first; else least first.
        with_ties: Keep more than ``n`` rows where the next ones have the order of the last, as
            SQL's ``FETCH FIRST n ROWS WITH TIES``.

    Raises:
        DeclarationError: When ``n`` is not positive, or ``id`` is not shown.
    """
    check_count(n, "top_n")
    shown = shown_columns(columns, "top_n")
    inputs = (expression(by, "top_n"), *shown.exprs)
    return TopN(inputs, n, shown, _id_place(id, shown), descending, with_ties=with_ties)


def _id_place(wanted: str | None, shown: Shown) -> int | None:
    if wanted is None:
        return None
    for known in (shown.names, shown.exprs):
        if wanted in known:
            return known.index(wanted)
    raise DeclarationError(
        f"agg.top_n tells rows apart by {wanted!r}, which it does not show",
        hint="add the id to columns: the list must hold what tells its rows apart",
    )
