"""``agg.accumulate``: a Python function called for each row, one after the other.

For what is no combiner: the function sees the current value and one row's values, and returns
the next value. It runs on the actor that owns the key, in arrival order; before the exchange the
rows of a key are only put together, so nothing is asked of the function but that it be
deterministic: a retry calls it again with the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, Packing, expression
from atoll.aggregates.combine import check_given, given_node
from atoll.errors import DeclarationError
from atoll.schema import List, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.kernels.accumulate import Accumulator
    from atoll.schema import Node


@dataclass(frozen=True)
class Accumulate(Aggregator):
    """Calls the user's function once for each row.

    What travels to the actor is no state but the rows themselves: packed lists of their values,
    in the first of the leaf's columns, the others null.
    """

    function: Callable[..., Any]
    initial: Any
    node: Node | None = None
    rows: List | None = None
    """The schema of the values that travel; known once bound."""
    packing: Packing | None = None
    gives: Node | None = None
    """What the user says that the value is."""

    word: ClassVar[str] = "accumulate"

    def __str__(self) -> str:
        """With the function's name."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{self.word}({', '.join((name, *self.inputs))})"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:  # noqa: ARG002 - unknown
        """What was said: only the function knows."""
        if self.gives is not None:
            return self.gives
        raise self.refusal(
            "does not say what it returns, and no PState does",
            f"say it: agg.{self.word}(..., gives=int)",
        )

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into any leaf that holds the initial value."""
        if not node.leaf:
            raise self.refusal(f"gives one value, the PState holds {node}", "go on to its values")
        check_given(self, self.gives, node)
        self._rows(input_types)

    def _rows(self, input_types: Sequence[pa.DataType]) -> List:
        from atoll.arrow_types import node_of

        nodes = [_with_tuples(node_of(each)) for each in input_types]
        if len(nodes) == 1:
            return List(nodes[0])
        return List(Struct(**{f"v{i}": node for i, node in enumerate(nodes)}))

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schemas of the value and of the rows."""
        from atoll.aggregates.kernels.combine import check_value

        self.check(node, input_types)
        check_value(self.initial, node, packing, self, "initial")
        rows = self._rows(input_types)
        return replace(self, node=node, rows=rows, packing=packing)

    @property
    def _accumulator(self) -> Accumulator:
        from atoll.aggregates.kernels.accumulate import Accumulator

        assert self.node is not None, "accumulators are bound before they run"
        assert self.rows is not None, "accumulators are bound before they run"
        assert self.packing is not None, "accumulators are bound before they run"
        return Accumulator(
            str(self),
            self.node,
            self.rows,
            self.packing,
            self.initial,
            self.function,
            several=len(self.inputs) > 1,
        )

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """The values of each row, as a list of one."""
        return self._accumulator.lift(columns, None)

    def nothing(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """No rows, of which the initial value is left."""
        return self._accumulator.no_rows()

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The values of each group's rows, one after the other."""
        return self._accumulator.reduce(states, starts)

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The value after the function saw each of the new rows."""
        return self._accumulator.merge(old, new)

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Each group's rows packed once."""
        from atoll.aggregates.kernels.segments import taken

        return self._accumulator.lift([taken(column, order) for column in columns], starts)


def accumulate(
    function: Callable[..., Any], *exprs: str, initial: Any, gives: Any = None
) -> Accumulate:
    """Call ``function(current, *values)`` for each row: ``accumulate(f, "v", initial=0)``.

    Args:
        function: Takes the current value and those of the expressions, None where they are null;
            returns the next value, which the PState must be able to hold; None begins again with
            ``initial``. It may change ``current`` in place and return it. It must be
            deterministic and without effects of its own: failed attempts are repeated.
        exprs: The expressions whose values it takes.
        initial: What a key begins with.
        gives: What the value is, as a PState's schema says it, where no PState does: as a column.

    Raises:
        DeclarationError: When the function is none, or there is no expression.
    """
    if not callable(function):
        raise DeclarationError(
            f"agg.accumulate takes a function and expressions, not {function!r}",
            hint='for example agg.accumulate(lambda current, v: current + v, "v", initial=0)',
        )
    if not exprs:
        raise DeclarationError("agg.accumulate needs an expression", hint="name a column")
    inputs = tuple(expression(e, "accumulate") for e in exprs)
    return Accumulate(inputs, function, initial, gives=given_node(gives, "accumulate"))


def _with_tuples(node: Node) -> Node:
    """The schema of a column's values as functions see them; they travel as the same bytes."""
    match node:
        case List(item):
            return List(_with_tuples(item))
        case Struct(fields):
            members = [(name, _with_tuples(member)) for name, member in fields]
            items = tuple(member for _, member in members if isinstance(member, Scalar))
            names = [f"f{index}" for index in range(len(items))]
            if list(node.names()) == names:
                return Scalar("tuple", optional=True, items=items)
            return Struct(**dict(members))
    return node
