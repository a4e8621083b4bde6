"""``agg.collect_list`` and ``agg.collect_set``: the values themselves, nulls left out.

``agg.remove_from_set`` takes values out of a set again.

A list is one value: every microbatch that adds to it reads and writes it whole, so collect what
stays short. A set is stored element by element and may grow without bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, Packing, expression, in_words, to_declare
from atoll.aggregates.totals.count import EVERY_ROW
from atoll.schema import List, Scalar, Set

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


@dataclass(frozen=True)
class CollectList(Aggregator):
    """The values in arrival order; the empty list where all are null."""

    packing: Packing | None = None
    word: ClassVar[str] = "collect_list"
    null_skips: ClassVar[int | None] = 0

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A list of the input's values."""
        from atoll.arrow_types import node_of

        return List(node_of(input_types[0]))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a list that holds the input's values."""
        from atoll.aggregates.kernels.types import accepts

        if not isinstance(node, List):
            hint = "declare List(...) there"
            if isinstance(node, Set):
                hint = f'elements of a Set come from agg.collect_set("{self.inputs[0]}")'
            raise self.refusal(f"gives a list, the PState holds {node}", hint)
        if not accepts(node.item, input_types[0]):
            raise self.refusal(
                f"of {in_words(input_types[0])} does not fit a list of {node.item}",
                to_declare(input_types[0], "List({})"),
            )

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the packing of lists."""
        self.check(node, input_types)
        return CollectList(self.inputs, packing)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """A list of one value, or of none where it is null."""
        from atoll.aggregates.kernels import lists

        return [lists.pack_groups(columns[0], None, node, self.packing)]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The lists of each group, one after the other."""
        from atoll.aggregates.kernels import lists

        return [lists.join_groups(states[0], starts)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The old list, then the new one."""
        from atoll.aggregates.kernels import lists

        return [lists.join_pairs(old[0], new[0])]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Each group's values packed once."""
        from atoll.aggregates.kernels import lists
        from atoll.aggregates.kernels.segments import taken

        return [lists.pack_groups(taken(columns[0], order), starts, node, self.packing)]


@dataclass(frozen=True)
class CollectSet(Aggregator):
    """The distinct values, each an element of a Set.

    The element is a key of the entry, so there is no state beside it: states have no columns.
    Rows whose value is null add nothing, unless the Set's elements are optional.

    With a second input, a condition, rows for which it holds take the element out. Then what
    travels is one column, whether the last row of an element took it out.
    """

    word: ClassVar[str] = "collect_set"
    element_wise: ClassVar[bool] = True

    @property
    def removes(self) -> bool:
        """Whether rows may take elements out."""
        return len(self.inputs) > 1

    def __str__(self) -> str:
        """As written, the condition named."""
        if not self.removes:
            return super().__str__()
        if self.inputs[1] == EVERY_ROW:
            return f"remove_from_set({self.inputs[0]})"
        return f"{self.word}({self.inputs[0]}, remove={self.inputs[1]})"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A set of the input's values."""
        from atoll.arrow_types import node_of

        item = node_of(input_types[0])
        if not isinstance(item, Scalar):
            raise self.refusal(
                f"needs scalars, its input is {in_words(input_types[0])}",
                "collect one member of it",
            )
        return Set(Scalar(item.kind, items=item.items))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a set that holds the input's values."""
        from atoll.aggregates.kernels.types import accepts

        if not isinstance(node, Set):
            raise self.refusal(f"gives a set, the PState holds {node}", "declare Set(...) there")
        if not accepts(node.item, input_types[0]):
            raise self.refusal(
                f"of {in_words(input_types[0])} does not fit a set of {node.item}",
                to_declare(input_types[0], "Set({})"),
            )
        if self.removes and str(input_types[1]) != "bool":
            raise self.refusal(
                f"removes by a condition, which is {in_words(input_types[1])}",
                'compare it with something: remove="amount < 0"',
            )

    def state_types(
        self,
        node: Node,  # noqa: ARG002 - nothing is kept
        input_types: Sequence[pa.DataType],  # noqa: ARG002
    ) -> tuple[pa.DataType, ...]:
        """None: the element is the key; or whether it was taken out."""
        from atoll.arrow_types import column_type

        return (column_type(Scalar("bool")),) if self.removes else ()

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002
        """Nothing; or whether the row takes its element out."""
        return [columns[1].fill_null(False)] if self.removes else []  # noqa: FBT003 - a value

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """What the last row did."""
        from atoll.aggregates.kernels.positions import reduce_arrived

        if not self.removes:
            return []
        return reduce_arrived(states, starts, final=True, ignore_nulls=False)

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:  # noqa: ARG002
        """What the new rows did."""
        return list(new)


def collect_list(expr: str) -> CollectList:
    """The values of ``expr`` in arrival order, leaving out nulls; into a ``List``."""
    return CollectList((expression(expr, "collect_list"),))


def collect_set(expr: str, remove: str | None = None) -> CollectSet:
    """The distinct values of ``expr``, leaving out nulls; into a ``Set``.

    Args:
        expr: The values.
        remove: A condition: rows for which it holds take their value out of the set. Of several
            rows with one value the one that came last decides.
    """
    value = expression(expr, "collect_set")
    if remove is None:
        return CollectSet((value,))
    return CollectSet((value, expression(remove, "collect_set")))


def remove_from_set(expr: str) -> CollectSet:
    """Take the values of ``expr`` out of a ``Set``.

    Where other steps add to the same Set in one microbatch, each step runs in the order of the
    declarations, whatever the order of the rows; ``collect_set(expr, remove=...)`` goes by the
    order of the rows.
    """
    return CollectSet((expression(expr, "remove_from_set"), EVERY_ROW))
