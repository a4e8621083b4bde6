"""``agg.limit``: the first n rows, by arrival or by an order expression.

By arrival, rows of one key from one depot partition keep their order; between partitions there
is none. With an order the list is sorted by it, as SQL's ``ORDER BY ... LIMIT n``: rows of equal
order by what they show, so the list depends on the rows alone; rows whose order is null are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, Packing
from atoll.aggregates.rows.columns import Columns, Shown, check_count, shown_columns
from atoll.aggregates.rows.order import By, order_terms
from atoll.aggregates.rows.top import TopN
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


@dataclass(frozen=True)
class OrderedLimit(TopN):
    """The first rows by an order expression."""

    word: ClassVar[str] = "limit"

    def __str__(self) -> str:
        """As written, the order named."""
        return f"{self.word}({self.count}, order_by={self.ordered_by})"


@dataclass(frozen=True)
class Limit(Aggregator):
    """The first rows by arrival; once there are ``count``, nothing changes any more."""

    count: int
    shown: Shown
    node: Node | None = None
    packing: Packing | None = None

    word: ClassVar[str] = "limit"

    def __str__(self) -> str:
        """The number and what is shown."""
        return f"{self.word}({self.count}, {', '.join(self.inputs)})"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A list of structs, tuples or values."""
        return self.shown.result_node(self, input_types)

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a list of what is shown."""
        self.shown.into(node).check(self, node, input_types)

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schema of the rows."""
        self.check(node, input_types)
        return replace(self, node=node, packing=packing, shown=self.shown.into(node))

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """A list of one row."""
        from atoll.aggregates.kernels import lists

        return [lists.pack_rows(self._rows(columns), None, *self._bound)]

    def nothing(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """An empty list: a row of nulls would be one of its rows."""
        from atoll.aggregates.kernels import lists

        return [lists.pack_rows([], lists.ONE_GROUP, *self._bound)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The first rows of each group's lists."""
        from atoll.aggregates.kernels import lists

        return [lists.heads_of_groups(states[0], starts, self.count, *self._bound)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The old rows, then as many of the new ones as there is room for."""
        from atoll.aggregates.kernels import lists

        return [lists.heads_of_pairs(old[0], new[0], self.count, *self._bound)]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """The first rows of each group; only they become Python values."""
        from atoll.aggregates.kernels import lists
        from atoll.aggregates.kernels.segments import heads, taken

        first, bounds = heads(starts, len(order), self.count)
        rows = self._rows([taken(column, order[first]) for column in columns])
        return [lists.pack_rows(rows, bounds, *self._bound)]

    def _rows(self, columns: Sequence[pa.Array]) -> list[object]:
        node, _ = self._bound
        return list(self.shown.rows(columns, self.shown.nodes(self, node), self))

    @property
    def _bound(self) -> tuple[Node, Packing]:
        assert self.node is not None, "limit is bound before it runs"
        assert self.packing is not None, "limit is bound before it runs"
        return self.node, self.packing


def limit(
    n: int, columns: Columns, order_by: By | None = None, *, descending: bool = False
) -> Limit | OrderedLimit:
    """The first ``n`` rows as a list: ``limit(3, columns={...}, order_by="at")``.

    Args:
        n: How many rows to keep.
        columns: What to show of each row: names and expressions for a ``List(Struct(...))``,
            several columns for the same under their names, several expressions for a
            ``List(tuple[...])``, one for a list of values.
        order_by: The order, which need not be shown, as ``by`` of ``top_n``:
            ``["-at", "id"]``; without it rows are taken as they arrive.
        descending: The other way round: greatest first.

    Raises:
        DeclarationError: When ``n`` is not positive, or ``descending`` has no order.
    """
    check_count(n, "limit")
    shown = shown_columns(columns, "limit")
    if order_by is not None:
        terms = order_terms(order_by, "limit")
        inputs = (*terms.exprs, *shown.exprs)
        return OrderedLimit(inputs, n, shown, None, descending, falling=terms.falling)
    if descending:
        raise DeclarationError(
            "agg.limit is descending without an order", hint='say by what: order_by="at"'
        )
    return Limit(shown.exprs, n, shown)
