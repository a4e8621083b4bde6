"""``agg.first`` and ``agg.last``: the value of one row, by arrival or by an order expression.

``agg.min_by`` and ``agg.max_by`` are Spark's names for those by an order expression.

By arrival, rows of one key from one depot partition keep their order; between partitions there
is none. With ``by`` the row with the least (first) or greatest (last) order counts, however it
arrived; rows whose order is null never do. Of several rows with the same order ``first`` takes
the one that came first, ``last`` the one that came last. An order may have several terms:
:mod:`atoll.aggregates.rows.order`.

As in Spark, the value may be null like any other, unless ``ignore_nulls`` is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from atoll.aggregates.base import Aggregator, Packing, expression, in_words, to_declare
from atoll.aggregates.finish import Finish, simple_kind
from atoll.aggregates.rows.columns import Columns, shown_columns
from atoll.aggregates.rows.order import By, kind_of_order, order_column, order_terms, order_text
from atoll.aggregates.struct_of import StructOf
from atoll.errors import DeclarationError
from atoll.schema import Scalar, Struct

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


class Chosen(Finish):
    """Of a value and the order that it was chosen by, of the hidden kind: the value."""

    word: ClassVar[str] = "ordered"
    keeps: ClassVar[str] = "the order that a value was chosen by"
    hidden_default: ClassVar[str | None] = "int"

    def suits(self) -> bool:
        """Every value, by an order of one simple kind."""
        return simple_kind(self.hidden)

    @property
    def state(self) -> tuple[Scalar | None, ...]:
        """The order, and the value or its bytes."""
        value = self.node if isinstance(self.node, Scalar) else None
        return Scalar(self.hidden or "int"), value

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The values."""
        return self.unpacking.column(self.node, columns[1])

    def value(self, cells: Sequence[Any]) -> Any:
        """The value."""
        return self.unpacking.value(self.node, cells[1])


@dataclass(frozen=True)
class _Position(Aggregator):
    """What both share.

    There are three states. By arrival, ``last`` needs its value alone. So does ``first`` when
    nulls are ignored, or else it could not tell a null that came first from nothing. Otherwise
    the value has a companion: its order, or the mark that it was seen.
    """

    ignore_nulls: bool = False
    packing: Packing | None = None
    falling: tuple[bool, ...] = (False,)
    """For each term of the order, if there is one, whether it counts the other way round."""
    final: ClassVar[bool]

    @property
    def ordered(self) -> bool:
        """Whether an expression orders the rows."""
        return len(self.inputs) > 1

    @property
    def _marked(self) -> bool:
        return not (self.ordered or self.final or self.ignore_nulls)

    def _null_place(self) -> int | None:
        """A row without an order never counts; one without a value where nulls are ignored."""
        if self.ordered:
            return 1
        return 0 if self.ignore_nulls else None

    def __str__(self) -> str:
        """As written, the order named."""
        by = f", by={self._by}" if self.ordered else ""
        return f"{self.word}({self.inputs[0]}{by})"

    @property
    def _by(self) -> str:
        return order_text(self.inputs[1:], self.falling)

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:
        """With the kind of the order."""
        if self._marked:
            return Chosen.text("bool")
        return Chosen.text(self._order(input_types).kind) if self.ordered else "plain"

    def _order(self, input_types: Sequence[pa.DataType]) -> Scalar:
        return kind_of_order(self, self.falling, input_types[1:])

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The schema of the value; null where there was none."""
        from atoll.arrow_types import node_of

        return node_of(input_types[0])

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a leaf that holds the value; a struct is written field by field."""
        from atoll.aggregates.kernels.types import accepts

        if self.ordered:
            self._order(input_types)
        if isinstance(node, Struct):
            name = node.names()[0]
            raise self.refusal(
                "gives one value, the PState holds a struct",
                f"give each field its own: aggregate(..., {name}=agg.{self._example(name)})",
            )
        self.check_field(node, input_types)
        if not accepts(node, input_types[0]):
            raise self.refusal(
                f"of {in_words(input_types[0])} does not fit a PState of {node}",
                to_declare(input_types[0]),
            )

    def _example(self, name: str) -> str:
        """The same aggregate of one field, as it is written."""
        terms = ["-" * falls + by for by, falls in zip(self.inputs[1:], self.falling, strict=False)]
        by = [repr(terms[0] if len(terms) == 1 else terms)] if terms else []
        return f"{self.word}({', '.join([repr(name), *by])})"

    def check_field(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Hold what does not depend on the value."""
        if not node.leaf:
            raise self.refusal(f"gives one value, the PState holds {node}", "go on to its values")
        if self.ordered:
            self._order(input_types)

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With the packing of lists."""
        self.check(node, input_types)
        return replace(self, packing=packing)

    def state_types(
        self, node: Node, input_types: Sequence[pa.DataType]
    ) -> tuple[pa.DataType, ...]:
        """The value, after its order or mark where it has one."""
        from atoll.arrow_types import column_type

        if self.ordered:
            return column_type(self._order(input_types)), column_type(node)
        if self._marked:
            return column_type(Scalar("bool")), column_type(node)
        return (column_type(node),)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """The value, after its order or mark."""
        from atoll.aggregates.kernels import positions
        from atoll.aggregates.kernels.types import fitted

        value = fitted(columns[0], node, self, self.packing)
        if self._marked:
            return [positions.marks(len(value)), value]
        if not self.ordered:
            return [value]
        by = order_column(columns[1:], self.falling, self.packing)
        order = fitted(by, self._order([each.type for each in columns]), self, None)
        if self.ignore_nulls:
            order = positions.null_where_null(order, value)
        return [order, value]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The state of one row of each group."""
        from atoll.aggregates.kernels import positions

        if self.ordered:
            return positions.reduce_ordered(states, starts, greatest=self.final)
        return positions.reduce_arrived(
            states, starts, final=self.final, ignore_nulls=self.ignore_nulls
        )

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The state of one of both."""
        from atoll.aggregates.kernels import positions

        if self.ordered:
            return positions.merge_ordered(old, new, greatest=self.final)
        return positions.merge_arrived(old, new, final=self.final, ignore_nulls=self.ignore_nulls)


@dataclass(frozen=True)
class First(_Position):
    """The value that came first, or of the least order."""

    word: ClassVar[str] = "first"
    final: ClassVar[bool] = False


@dataclass(frozen=True)
class Last(_Position):
    """The value that came last, or of the greatest order."""

    word: ClassVar[str] = "last"
    final: ClassVar[bool] = True


@dataclass(frozen=True)
class MinBy(First):
    """The value of the least order."""

    word: ClassVar[str] = "min_by"

    def __str__(self) -> str:
        """Spark's way to write it: ``min_by(v, t)``."""
        return f"{self.word}({self.inputs[0]}, {self._by})"


@dataclass(frozen=True)
class MaxBy(Last):
    """The value of the greatest order."""

    word: ClassVar[str] = "max_by"

    def __str__(self) -> str:
        """Spark's way to write it: ``max_by(v, t)``."""
        return f"{self.word}({self.inputs[0]}, {self._by})"


_Made = TypeVar("_Made", bound=_Position)


def _made(kind: type[_Made], expr: str, by: By | None, *, ignore_nulls: bool) -> _Made:
    if by is None:
        return kind((expression(expr, kind.word),), ignore_nulls)
    return _ordered(kind, expr, by, ignore_nulls=ignore_nulls)


def _ordered(kind: type[_Made], expr: str, by: By, *, ignore_nulls: bool = False) -> _Made:
    value = expression(expr, kind.word)
    terms = order_terms(by, kind.word)
    return kind((value, *terms.exprs), ignore_nulls, falling=terms.falling)


def first(expr: str, by: By | None = None, *, ignore_nulls: bool = False) -> First:
    """The value of the row that came first, or of the row with the least ``by``."""
    return _made(First, expr, by, ignore_nulls=ignore_nulls)


def last(expr: str, by: By | None = None, *, ignore_nulls: bool = False) -> Last:
    """The value of the row that came last, or of the row with the greatest ``by``."""
    return _made(Last, expr, by, ignore_nulls=ignore_nulls)


def min_by(expr: str | Columns, by: By) -> MinBy | StructOf:
    """The value of the row with the least ``by``; of several the one that came first.

    Args:
        expr: The value; several columns, or names and expressions, for a ``Struct(...)``.
        by: The order; of several expressions those behind decide where those before are equal,
            and one with a minus before it counts the other way round: ``["-at", "id"]``.
    """
    return _row_of(MinBy, expr, by)


def max_by(expr: str | Columns, by: By) -> MaxBy | StructOf:
    """The value of the row with the greatest ``by``; of several the one that came last.

    Args:
        expr: The value; several columns, or names and expressions, for a ``Struct(...)``.
        by: As for :func:`min_by`.
    """
    return _row_of(MaxBy, expr, by)


def _row_of(kind: type[_Made], expr: str | Columns, by: By) -> _Made | StructOf:
    """One value, or a row as a struct, each field that of the same row."""
    if isinstance(expr, str) or not isinstance(expr, Mapping | Sequence):
        return _ordered(kind, expr, by)
    shown = shown_columns(expr, kind.word)
    names = shown.names or shown.own_names
    if not names:
        raise DeclarationError(
            f"agg.{kind.word} has no names for the fields of {list(expr)!r}",
            hint=f'name them: agg.{kind.word}({{"total": "price * 2"}}, by=...)',
        )
    return StructOf.of(
        {name: _ordered(kind, each, by) for name, each in zip(names, shown.exprs, strict=True)}
    )
