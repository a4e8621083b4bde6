"""``agg.top_n``: the n rows of the greatest (or least) order, as a sorted list.

With ``id`` the latest row of each id stands for it. Only n rows are kept, so the list is right
as long as an id's order moves one way: up for the greatest, down for the least (a growing total,
a latest time). If an order may move back, keep all ids in a map that is ranked by it.

Sorted by order; rows of equal order by what they show, least first, so the list depends on the
rows alone and not on how they were cut into microbatches. Rows whose order is null are left out.
An order may have several terms: :mod:`atoll.aggregates.rows.order`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, Packing
from atoll.aggregates.finish import OpaqueFinish, simple_kind
from atoll.aggregates.rows.columns import Columns, Shown, check_count, shown_columns
from atoll.aggregates.rows.order import By, kind_of_order, order_column, order_terms, order_text
from atoll.errors import DeclarationError
from atoll.schema import List, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.kernels.top import Ranking
    from atoll.schema import Node


class Top(OpaqueFinish):
    """Of pairs of an order, of the hidden kind, and a value: the list of the values."""

    word: ClassVar[str] = "top"
    keeps: ClassVar[str] = "values with the order they were chosen by"
    hidden_default: ClassVar[str | None] = "int"

    def suits(self) -> bool:
        """A list, by an order of one simple kind."""
        return simple_kind(self.hidden) and isinstance(self.node, List)

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The lists."""
        states = columns[0].to_pylist()
        values = [None if data is None else self.shown(data) for data in states]
        return self.unpacking.array(self.node, values)

    def shown(self, state: bytes) -> Any:
        """One list."""
        assert isinstance(self.node, List), "which is all that it suits"
        order = Scalar(self.hidden or "int", optional=True)
        pairs = self.unpacking.unpack(List(Struct(order=order, value=self.node.item)), state)
        return pairs and [pair["value"] for pair in pairs]


@dataclass(frozen=True)
class TopN(Aggregator):
    """Keeps the top rows, each with its order.

    ``inputs`` are the terms of the order, then what is shown.
    """

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
    falling: tuple[bool, ...] = (False,)
    """For each term of the order whether it counts the other way round."""

    word: ClassVar[str] = "top_n"
    null_skips: ClassVar[int | None] = 0
    opaque: ClassVar[bool] = True

    def __str__(self) -> str:
        """The number and the order."""
        return f"{self.word}({self.count}, by={self.ordered_by})"

    @property
    def ordered_by(self) -> str:
        """The order as it is written."""
        return order_text(self.inputs[: len(self.falling)], self.falling)

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:
        """With the kind of the order."""
        return Top.text(self._order_kind(input_types))

    def _order_kind(self, input_types: Sequence[pa.DataType]) -> str:
        return kind_of_order(self, self.falling, input_types[: len(self.falling)]).kind

    def _shown_of(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The part of the inputs that is shown."""
        return inputs[len(self.falling) :]

    def _columns(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The order as one column, then what is shown."""
        width = len(self.falling)
        return [order_column(columns[:width], self.falling, self.packing), *columns[width:]]

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A list of structs, tuples or values."""
        return self.shown.result_node(self, self._shown_of(input_types))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a list of what is shown."""
        self._order_kind(input_types)
        self.shown.into(node).check(self, node, self._shown_of(input_types))

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schema of the rows."""
        self.check(node, input_types)
        bound = (node, self._order_kind(input_types))
        return replace(self, bound=bound, packing=packing, shown=self.shown.into(node))

    @property
    def _ranking(self) -> Ranking:
        from atoll.aggregates.kernels.top import Ranking

        assert self.bound is not None, "top_n is bound before it runs"
        assert self.packing is not None, "top_n is bound before it runs"
        node, kind = self.bound
        return Ranking(self, node, kind, self.shown.nodes(self, node), self.packing)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """A list of one row, or of none where its order is null."""
        return [self._ranking.lift(self._columns(columns))]

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
        return [self._ranking.fold(self._columns(columns), order, starts)]


def top_n(
    n: int,
    by: By,
    columns: Columns,
    id: str | None = None,  # noqa: A002 - the word for it; used by keyword
    *,
    descending: bool = True,
    with_ties: bool = False,
) -> TopN:
    """The ``n`` rows with the greatest ``by``, sorted: ``top_n(3, by="spent", columns={...})``.

    Args:
        n: How many rows to keep.
        by: The order; of several expressions those behind decide where those before are equal,
            and one with a minus before it counts the other way round: ``["price", "-at"]``.
        columns: What to show of each row: names and expressions for a ``List(Struct(...))``,
            several columns for the same under their names, several expressions for a
            ``List(tuple[...])``, one for a list of values.
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
    terms = order_terms(by, "top_n")
    return TopN(
        (*terms.exprs, *shown.exprs),
        n,
        shown,
        _id_place(id, shown),
        descending,
        with_ties=with_ties,
        falling=terms.falling,
    )


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
