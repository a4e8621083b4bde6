"""Sets in one value: ``collect_set`` and ``count_distinct`` as columns.

The state is the distinct values as keys have them, sorted: what equals what, and in which order
they come, is as in a Set of a PState.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, Packing, in_words
from atoll.aggregates.finish import OpaqueFinish, item_of, kind_of_node
from atoll.schema import List, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


def element_of(aggregator: Aggregator, kind: pa.DataType, what: str) -> Scalar:
    """What a column's values are as elements of a set, or keys of a map.

    Raises:
        DeclarationError: When they cannot be.
    """
    from atoll.arrow_types import node_of

    found = node_of(kind)
    if not isinstance(found, Scalar):
        raise aggregator.refusal(f"needs scalars as {what}, not {in_words(kind)}", "name a member")
    return Scalar(found.kind, items=found.items)


class Elements(OpaqueFinish):
    """Of elements as keys have them: the list of them, in their order."""

    word: ClassVar[str] = "set"
    keeps: ClassVar[str] = "distinct values"

    def suits(self) -> bool:
        """A list of scalars."""
        return isinstance(item_of(self.node), Scalar)

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The lists, all elements at once."""
        from atoll.aggregates.kernels.collections import shown_sets

        element = item_of(self.node)
        assert isinstance(element, Scalar), "which is all that it suits"
        return shown_sets(columns[0], element, self.unpacking)

    def shown(self, state: bytes) -> Any:
        """One list."""
        return [self.unpacking.element(each) for each in self.unpacking.plain(state)]


class Size(OpaqueFinish):
    """Of elements as keys have them: how many there are."""

    word: ClassVar[str] = "size"
    keeps: ClassVar[str] = "distinct values to count"

    def suits(self) -> bool:
        """An int."""
        return kind_of_node(self.node) == "int"

    def shown(self, state: bytes) -> int:
        """Their number."""
        return len(self.unpacking.plain(state))


@dataclass(frozen=True)
class SetValue(Aggregator):
    """The distinct values, as an array in their order."""

    written: str = ""
    """As the user wrote it."""
    element: Scalar | None = None
    packing: Packing | None = None

    word: ClassVar[str] = "collect_set"
    null_skips: ClassVar[int | None] = 0
    opaque: ClassVar[bool] = True

    def __str__(self) -> str:
        """As the user wrote it."""
        return self.written

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - all alike
        """The elements."""
        return Elements.text()

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A list of the values."""
        return List(element_of(self, input_types[0], "elements"))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002 - own
        """It goes into what it says."""
        self.result_node(input_types)

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With what its elements are."""
        self.check(node, input_types)
        element = element_of(self, input_types[0], "elements")
        return replace(self, element=element, packing=packing)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """A set of one value, or of none where it is null."""
        import numpy as np

        rows = np.arange(len(columns[0]))
        return self.fold(columns, node, rows, rows)

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The union of each group."""
        from atoll.aggregates.kernels import collections

        assert self.packing is not None, "sets are bound before they run"
        return [collections.united(states[0], starts, self.packing)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The union of both."""
        from atoll.aggregates.kernels import collections

        assert self.packing is not None, "sets are bound before they run"
        return [collections.either(old[0], new[0], self.packing)]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Each group's distinct values, found all at once."""
        from atoll.aggregates.kernels import collections

        assert self.packing is not None, "sets are bound before they run"
        assert self.element is not None, "sets are bound before they run"
        groups = collections.groups_of(starts, len(order))
        values = columns[0].take(order)
        return [collections.sets(values, groups, len(starts), self.element, self.packing)]


@dataclass(frozen=True)
class DistinctValue(SetValue):
    """How many distinct values there are, exactly."""

    word: ClassVar[str] = "count_distinct"

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - all alike
        """Their number."""
        return Size.text()

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """An int."""
        element_of(self, input_types[0], "values to count")
        return Scalar("int")
