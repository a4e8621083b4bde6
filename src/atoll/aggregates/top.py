"""``agg.top_n``: the n rows of the greatest (or least) order, as a sorted list.

With ``id`` the latest row of each id stands for it. Only n rows are kept, so the list is right
as long as an id's order moves one way: up for the greatest, down for the least (a growing total,
a latest time). If an order may move back, keep all ids in a Map and take the top when reading.

Sorted by order; rows of equal order by what they show, least first, so the list depends on the
rows alone and not on how they were cut into microbatches. Rows whose order is null are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, Packing, expression
from atoll.errors import DeclarationError
from atoll.schema import List, Scalar, Struct

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.kernels.top import Ranking
    from atoll.schema import Node

__all__ = ["TopN", "top_n"]


@dataclass(frozen=True)
class TopN(Aggregator):
    """Keeps the top rows, each with its order. ``inputs`` are the order, then what is shown.

    ``names`` are the fields of the shown structs; without names rows are tuples, or, of one
    expression with ``alone``, values.
    """

    count: int
    names: tuple[str, ...] = ()
    alone: bool = False
    id_place: int | None = None
    """Which of the shown values tells rows of one thing apart from those of others."""
    descending: bool = True
    bound: tuple[Node, str] | None = None
    """The list's schema and the kind of the order, once bound."""
    packing: Packing | None = None

    word: ClassVar[str] = "top_n"

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
        from atoll.aggregates.kernels.types import accepts, node_of

        node = node_of(input_types[0])
        if isinstance(node, Scalar) and accepts(node, input_types[0]):
            return node.kind
        raise self.refusal(
            f"cannot order rows by {input_types[0]}", "order by a number, a time or a text"
        )

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A list of structs, tuples or values."""
        from atoll.aggregates.kernels.types import node_of

        shown = [node_of(each) for each in input_types[1:]]
        if self.names:
            return List(Struct(**dict(zip(self.names, shown, strict=True))))
        if self.alone:
            return List(shown[0])
        scalars = [each for each in shown if isinstance(each, Scalar)]
        if len(scalars) < len(shown):
            raise self.refusal("shows more than scalars", "name the columns: columns={...}")
        return List(Scalar("tuple", items=tuple(scalars)))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a list of what is shown."""
        from atoll.aggregates.kernels.types import accepts

        self._order_kind(input_types)
        shown = self._shown(node)
        for text, field, arrow_type in zip(self.inputs[1:], shown, input_types[1:], strict=True):
            if not accepts(field, arrow_type):
                raise self.refusal(
                    f"shows {text} of type {arrow_type}, the PState holds {field}",
                    "declare the input's type there, or cast the expression",
                )

    def _shown(self, node: Node) -> tuple[Node, ...]:
        """The schemas of the values shown."""
        item = node.item if isinstance(node, List) else None
        match item:
            case Struct(fields) if self.names and {name for name, _ in fields} == set(self.names):
                return tuple(dict(fields)[name] for name in self.names)
            case Scalar("tuple", _, items) if not self.names and not self.alone:
                if len(items) == len(self.inputs) - 1:
                    return items
            case Scalar() | List() | Struct() if self.alone:
                return (item,)
        wanted = "List(type)" if self.alone else f"List(tuple[{len(self.inputs) - 1} types])"
        if self.names:
            wanted = f"List(Struct({', '.join(f'{name}=...' for name in self.names)}))"
        raise self.refusal(f"does not fit a PState of {node}", f"declare {wanted} there")

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schema of the rows."""
        from dataclasses import replace

        self.check(node, input_types)
        return replace(self, bound=(node, self._order_kind(input_types)), packing=packing)

    def state_types(
        self,
        node: Node,  # noqa: ARG002 - always opaque
        input_types: Sequence[pa.DataType],  # noqa: ARG002
    ) -> tuple[pa.DataType, ...]:
        """One column of packed rows, each with its order."""
        from atoll.aggregates.kernels.types import OPAQUE

        return (OPAQUE,)

    @property
    def _ranking(self) -> Ranking:
        from atoll.aggregates.kernels.top import Ranking

        assert self.bound is not None, "top_n is bound before it runs"
        assert self.packing is not None, "top_n is bound before it runs"
        node, kind = self.bound
        shown = self._shown(node)
        return Ranking(self, node, kind, shown, self.packing)

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
    columns: Mapping[str, str] | Sequence[str] | str,
    id: str | None = None,  # noqa: A002 - the word for it; used by keyword
    *,
    descending: bool = True,
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

    Raises:
        DeclarationError: When ``n`` is not positive, or ``id`` is not shown.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise DeclarationError(f"agg.top_n of {n!r} rows", hint="keep at least one row")
    names: tuple[str, ...] = ()
    if isinstance(columns, Mapping):
        names = tuple(columns)
        shown = tuple(columns.values())
    else:
        shown = (columns,) if isinstance(columns, str) else tuple(columns)
    if not shown:
        raise DeclarationError("agg.top_n shows no columns", hint='give columns={"id": "id"}')
    inputs = tuple(expression(text, "top_n") for text in (by, *shown))
    return TopN(inputs, n, names, isinstance(columns, str), _id_place(id, names, shown), descending)


def _id_place(wanted: str | None, names: Sequence[str], shown: Sequence[str]) -> int | None:
    if wanted is None:
        return None
    if wanted in names:
        return names.index(wanted)
    if wanted in shown:
        return shown.index(wanted)
    raise DeclarationError(
        f"agg.top_n tells rows apart by {wanted!r}, which it does not show",
        hint="add the id to columns: the list must hold what tells its rows apart",
    )
