"""``agg.combine``: a combiner of the user's own, in Python.

The function takes the current value and another one and returns their combination. It must be
associative, with ``zero`` as its identity: ``f(f(a, b), c) == f(a, f(b, c))`` and
``f(zero, a) == a``; then partial results may be built before the exchange. It need not be
commutative: values of one key are combined in arrival order.

Values come from the row: the expression's value itself; or of several expressions a dict with
the struct's field names, in their order; or what ``lift(*values)`` makes of them. None stands
for no value and is never combined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, Packing, expression, in_words
from atoll.errors import DeclarationError
from atoll.schema import Struct, as_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.kernels.combine import Combiner
    from atoll.schema import Node


@dataclass(frozen=True)
class Combine(Aggregator):
    """Calls the user's function for each value, and stores what it returns."""

    zero: Any
    function: Callable[[Any, Any], Any]
    lifter: Callable[..., Any] | None = None
    node: Node | None = None
    packing: Packing | None = None
    gives: Node | None = None
    """What the user says that the value is."""

    word: ClassVar[str] = "combine"

    def __str__(self) -> str:
        """With the function's name."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{self.word}({', '.join((name, *self.inputs))})"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The schema of the value, where the function keeps it or it was said."""
        from atoll.arrow_types import node_of

        if self.gives is not None:
            return self.gives
        if self.lifter is None and len(self.inputs) == 1:
            return node_of(input_types[0])
        raise self.refusal(
            "does not say what it returns, and no PState does",
            f"say it: agg.{self.word}(..., gives=int)",
        )

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into any leaf; values that are not lifted must be the leaf's."""
        from atoll.aggregates.kernels.types import accepts

        if not node.leaf:
            raise self.refusal(f"gives one value, the PState holds {node}", "go on to its values")
        check_given(self, self.gives, node)
        if self.lifter is not None:
            return
        if len(self.inputs) == 1:
            if not accepts(node, input_types[0]):
                raise self.refusal(
                    f"of {in_words(input_types[0])} does not fit a PState of {node}",
                    "give lift=, a function that makes the PState's value of a row's values",
                )
            return
        fields = node.fields if isinstance(node, Struct) else ()
        if len(fields) != len(self.inputs):
            raise self.refusal(
                f"takes {len(self.inputs)} expressions, the PState holds {node}",
                "give one expression for each field of a struct, or lift=",
            )
        for (name, field), arrow_type in zip(fields, input_types, strict=True):
            if not accepts(field, arrow_type):
                raise self.refusal(
                    f"gives {in_words(arrow_type)} for the field {name!r}, "
                    f"the PState holds {field}",
                    "cast the expression, or give lift=",
                )

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the schema that the values have, and a zero that is one."""
        from atoll.aggregates.kernels.combine import check_value, is_identity

        self.check(node, input_types)
        check_value(self.zero, node, packing, self, "zero")
        if not is_identity(self.zero, self.function):
            raise self.refusal(
                f"has zero={self.zero!r}, but combining it with itself gives something else",
                "give the function's identity: f(zero, a) must be a; "
                "agg.accumulate begins with any value",
            )
        return replace(self, node=node, packing=packing)

    @property
    def _combiner(self) -> Combiner:
        from atoll.aggregates.kernels.combine import Combiner

        assert self.node is not None, "custom combiners are bound before they run"
        assert self.packing is not None, "custom combiners are bound before they run"
        return Combiner(str(self), self.node, self.packing, self.zero, self.function)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """The value of each row."""
        return self._combiner.lift(columns, self.lifter)

    def nothing(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """Nothing known, which is shown as the zero: the function may make more of nulls."""
        from atoll.aggregates.kernels.segments import nulls

        return [nulls(1, each) for each in self.state_types(node, ())]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The combination of each group's values."""
        return self._combiner.reduce(states, starts)

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The combination of both."""
        return self._combiner.merge(old, new)


def combine(
    zero: Any,
    function: Callable[[Any, Any], Any],
    *exprs: str,
    lift: Callable[..., Any] | None = None,
    gives: Any = None,
) -> Combine:
    """Combine values with a Python function: ``combine(0, operator.or_, "flags")``.

    Args:
        zero: The identity; also what a key holds whose values were all None.
        function: ``(current, value) -> current``; associative. May change ``current`` in place.
        exprs: The expressions whose values it takes.
        lift: ``(*values) -> value``, makes a row's values into one that the PState holds.
        gives: What the value is, as a PState's schema says it, where no PState does: as a column,
            of several expressions or with ``lift``.

    Raises:
        DeclarationError: When the functions are none, or there is no expression.
    """
    if not callable(function) or not (lift is None or callable(lift)):
        raise DeclarationError(
            "agg.combine takes a zero, a function and expressions, in this order",
            hint='for example agg.combine(0, lambda current, value: current + value, "v")',
        )
    if not exprs:
        raise DeclarationError("agg.combine needs an expression", hint="name a column")
    inputs = tuple(expression(each, "combine") for each in exprs)
    return Combine(inputs, zero, function, lift, gives=given_node(gives, "combine"))


def given_node(gives: Any, word: str) -> Node | None:
    """The schema that a user said with ``gives=``.

    Raises:
        DeclarationError: When it is none of one value.
    """
    if gives is None:
        return None
    node = as_node(gives)
    if not node.leaf:
        raise DeclarationError(
            f"agg.{word} gives one value, and {node} is kept element by element",
            hint="give a scalar, a List(...) or a Struct(...) of such",
        )
    return node


def check_given(aggregator: Aggregator, gives: Node | None, node: Node) -> None:
    """Hold that what was said with ``gives=`` is what the PState holds.

    Raises:
        DeclarationError: When it is something else.
    """
    if gives is not None and _plain(gives) != _plain(node):
        raise aggregator.refusal(
            f"says gives={gives}, and {node} is declared there", "leave gives= out"
        )


def _plain(node: Node) -> str:
    return str(node).replace(" | None", "")
