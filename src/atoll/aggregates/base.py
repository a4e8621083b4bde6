"""What an aggregate is: three steps that turn rows into state, the same for every aggregate.

*Lift* makes one state of each row. *Reduce* joins the states of the rows of one group, in
arrival order. *Merge* joins what a store holds with what a microbatch brings. All three work on
Arrow columns, many groups at once. They obey one law, which makes partial aggregation before an
exchange possible: however the rows of a key are cut into parts (order kept), reducing the parts
and merging the results gives the same state as reducing them all at once. The only exception is
the sum of floats, whose last digits depend on the order of additions.

A state is one or more *physical columns*, those of the PState's leaf. Some aggregates keep more
than a reader sees (an average keeps a sum and a count); their *finish* says how it is shown
(:mod:`atoll.aggregates.finish`).

Declaring an aggregate imports nothing heavy: the kernels are loaded when rows arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node

__all__ = ["Aggregator", "Packing", "PlainForms", "StateField", "expression", "in_words"]


@dataclass(frozen=True, slots=True)
class PlainForms:
    """Opaque bytes without the Python values between: what they hold, as lists and numbers.

    A struct is the list of its members in the order of its fields, an instant a number.
    """

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    sort: Callable[[Node], bool]
    """Whether plain forms of that schema sort, and are equal, as their values do."""


class EncodedKeys(Protocol):
    """A column of values as keys have them: equal where the values are, sorted as they are."""

    def to_bytes(self) -> list[bytes]:
        """Each value."""

    def take(self, indices: Any) -> EncodedKeys:
        """The values at these positions."""

    def sort_order(self) -> NDArray[np.int64]:
        """The positions in order; equal values keep theirs."""

    def group_starts(self) -> NDArray[np.int64]:
        """Where each run of equal values begins."""


class LeafForm(Protocol):
    """How a leaf's physical columns become one value of bytes for each row, and come back."""

    def encode_columns(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """The bytes of each row."""

    def decode_columns(self, values: Sequence[bytes | None]) -> list[pa.Array]:
        """The columns; null in all of them where a row is None."""

    @property
    def value_arrow_type(self) -> pa.DataType:
        """The type of what a reader sees."""

    def finish_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """What a reader sees of the columns."""

    def decode(self, data: bytes) -> Any:
        """What a reader sees of the bytes of one row."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How Python values become the bytes of an opaque column, and come back.

    Aggregates stand below the codec, so whoever runs them hands it in:
    ``codec.values.packing.PACKING``.
    """

    pack: Callable[[Node, object], bytes]
    unpack: Callable[[Node, bytes], Any]
    plain: PlainForms | None = None
    keys: Callable[[pa.Array, Any], EncodedKeys] | None = None
    """A column of a scalar's type, without nulls, as keys."""
    leaf: Callable[[Node, Mapping[str, str]], LeafForm] | None = None
    """A leaf's form, by its schema and the finishes of its fields."""
    orders: Callable[[Sequence[pa.Array], Sequence[bool]], pa.Array] | None = None
    """One binary column that sorts as several columns do, some of them the other way round."""


@dataclass(frozen=True, slots=True)
class StateField:
    """The state of one field of a struct, or of the whole leaf (``name`` None).

    ``finish`` is ``plain`` where nothing is hidden, else how its
    :class:`~atoll.aggregates.finish.Finish` is written down.
    """

    name: str | None
    node: Node
    columns: tuple[pa.DataType, ...]
    finish: str


@dataclass(frozen=True)
class Aggregator(ABC):
    """How rows fold into one leaf of a PState.

    Frozen and picklable. Declared by the functions of ``atoll.agg``; then :meth:`bind` gives the
    aggregate that runs, once the types of its inputs are known. All of :meth:`lift`,
    :meth:`reduce`, :meth:`merge` and :meth:`fold` are called on what ``bind`` returned.
    """

    inputs: tuple[str, ...]
    """The Spark SQL expressions whose values it takes, in the order of ``lift``'s columns."""

    word: ClassVar[str]
    """The function's name in ``atoll.agg``."""

    combines: ClassVar[bool] = True
    """Whether partial states can be built before the exchange."""

    null_skips: ClassVar[int | None] = None
    """The place of the input whose null leaves the row out; None where a null is a value, too."""

    opaque: ClassVar[bool] = False
    """Whether its state is one column of bytes, whatever readers see."""

    element_wise: ClassVar[bool] = False
    """Whether it adds elements to a Set (each one a key) rather than folding values."""

    def __str__(self) -> str:
        """As the user wrote it, for messages: ``sum(price)``."""
        return f"{self.word}({', '.join(self.inputs)})"

    def where(self, condition: str) -> Self:
        """The same over the rows for which a condition holds, as SQL's ``FILTER (WHERE ...)``.

        ``agg.sum("price").where("price < 10000")``. A condition that is null does not hold.

        Raises:
            DeclarationError: When the aggregate is not one that leaves nulls out.
        """
        place = self._null_place()
        if place is None:
            raise DeclarationError(
                f"agg.{self} sees nulls, so a condition cannot keep rows from it",
                hint="filter the rows before: stream.where(...).aggregate(...)",
            )
        test = expression(condition, "where")
        guarded = f"CASE WHEN {test} THEN {self.inputs[place]} END"
        inputs = (*self.inputs[:place], guarded, *self.inputs[place + 1 :])
        return replace(self, inputs=inputs)

    # While declaring and deploying -----------------------------------------------------------

    @abstractmethod
    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The schema of the result over inputs of these types.

        Raises:
            DeclarationError: When it cannot aggregate such inputs.
        """

    @abstractmethod
    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Hold that it can fold inputs of these types into a leaf of this schema.

        Raises:
            DeclarationError: When it cannot; the hint says what to change.
        """

    def bind(
        self,
        node: Node,
        input_types: Sequence[pa.DataType],
        packing: Packing,  # noqa: ARG002 - for the aggregates that keep Python values
    ) -> Aggregator:
        """The aggregate ready to run into that leaf: checked, and knowing what it needs.

        ``inputs`` stay as they are.

        Raises:
            DeclarationError: As :meth:`check`.
        """
        self.check(node, input_types)
        return self

    def state_fields(
        self, node: Node, input_types: Sequence[pa.DataType]
    ) -> tuple[StateField, ...]:
        """The physical columns of the state and how they are shown, field by field."""
        types = self.state_types(node, input_types)
        return (StateField(None, node, types, self.finisher(input_types)),)

    def finishers(self, node: Node, input_types: Sequence[pa.DataType]) -> dict[str, str]:
        """The finishes other than plain by field (``""``: the leaf itself), for its codec."""
        fields = self.state_fields(node, input_types)
        return {each.name or "": each.finish for each in fields if each.finish != "plain"}

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - by subclasses
        """How the state is shown: as its finish is written down, or ``plain``."""
        return "plain"

    def state_types(
        self,
        node: Node,
        input_types: Sequence[pa.DataType],  # noqa: ARG002 - by subclasses
    ) -> tuple[pa.DataType, ...]:
        """The types of the state's physical columns."""
        from atoll.arrow_types import OPAQUE, leaf_types

        return (OPAQUE,) if self.opaque else leaf_types(node)

    # While running -----------------------------------------------------------------------------

    @abstractmethod
    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """One state per row.

        Args:
            columns: The values of :attr:`inputs`, row by row.
            node: The leaf's schema, the one that was bound.

        Raises:
            DataError: When a value does not fit the leaf.
        """

    def nothing(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """The state of no rows at all, as one row.

        That of a row of nulls, since aggregates leave nulls out; those that do not say otherwise.

        Args:
            columns: As of :meth:`lift`: one row of nulls.
            node: The leaf's schema, the one that was bound.
        """
        return self.lift(columns, node)

    @abstractmethod
    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """One state per group.

        Args:
            states: Physical columns, the rows of a group adjacent and in arrival order.
            starts: The position of each group's first row, ascending; no group is empty.

        Raises:
            DataError: When a state cannot be kept exactly (a sum of more than 64 bits).
        """

    @abstractmethod
    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """Row by row, the state after ``new`` came on top of ``old``.

        Args:
            old: What the store holds; null in every column where it holds nothing.
            new: What :meth:`reduce` gave.

        Raises:
            DataError: As :meth:`reduce`.
        """

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Lift and reduce at once; faster for aggregates that keep Python values.

        Args:
            columns: As for :meth:`lift`, in arrival order.
            node: As for :meth:`lift`.
            order: The rows in group order.
            starts: As for :meth:`reduce`, over ``order``.
        """
        from atoll.aggregates.kernels.segments import taken

        return self.reduce([taken(state, order) for state in self.lift(columns, node)], starts)

    def _null_place(self) -> int | None:
        """The place of the input whose null leaves the row out."""
        return self.null_skips

    # For subclasses ----------------------------------------------------------------------------

    def refusal(self, problem: str, hint: str) -> DeclarationError:
        """The error for an aggregate that does not fit."""
        return DeclarationError(f"agg.{self} {problem}", hint=hint)


def in_words(arrow_type: pa.DataType) -> str:
    """A column's type as users write it, for messages."""
    from atoll.ddl import type_in_words

    return type_in_words(arrow_type)


def to_declare(arrow_type: pa.DataType, shape: str = "{}") -> str:
    """What to write where a column of that type does not fit what a PState holds.

    Args:
        arrow_type: The column's type.
        shape: What stands around it: ``List({})``.

    Raises:
        DeclarationError: When a PState can hold no such values.
    """
    from atoll.arrow_types import node_of

    kind = str(node_of(arrow_type)).replace(" | None", "")
    return f"declare {shape.format(kind)} there, or cast the expression"


def expression(text: object, word: str) -> str:
    """The text of a Spark SQL expression, checked to be one.

    Raises:
        DeclarationError: When it is no text.
    """
    if isinstance(text, str) and text.strip():
        return text
    raise DeclarationError(
        f"agg.{word} takes Spark SQL expressions as text, not {text!r}",
        hint=f'write a column\'s name or an expression: agg.{word}("price")',
    )
