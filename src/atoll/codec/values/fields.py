"""The physical columns of one field, and what a reader sees of them.

A plain field is one column: the value itself, or its msgpack bytes. A field that an aggregate
keeps hidden state in is as its :class:`~atoll.aggregates.finish.Finish` says. The hidden parts (an
average's sum, the order of others, what estimates rest on) are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import pyarrow as pa

from atoll.aggregates.finish import Finish
from atoll.arrow_types import OPAQUE, arrow_type, value_type
from atoll.codec.scalars import INT64_MAX, INT64_MIN, from_plain, plain_of, value_of
from atoll.codec.values.opaque import arrow_ready, pack, unpack
from atoll.schema import Node, Scalar


def stored_column(node: Node, column: pa.Array) -> pa.Array:
    """A physical column that hides nothing, as a reader sees it."""
    if isinstance(node, Scalar):
        return column
    values = [None if data is None else unpack(node, data) for data in column.to_pylist()]
    return shown_array(node, values)


def stored_value(node: Node, cell: Any) -> Any:
    """The same of the plain form of one cell."""
    if cell is None:
        return None
    return value_of(cell, node.kind) if _is_simple(node) else unpack(node, cell)


def shown_array(node: Node, values: Sequence[Any]) -> pa.Array:
    """Values of a schema as a column that a reader sees."""
    return pa.array([arrow_ready(node, value) for value in values], value_type(node))


class Plain(Finish):
    """Of what hides nothing."""

    word: ClassVar[str] = "plain"
    keeps: ClassVar[str] = "the value alone"

    def suits(self) -> bool:
        """Every leaf may be plain."""
        return True

    @property
    def state(self) -> tuple[Scalar | None, ...]:
        """The value, or its bytes."""
        return (self.node if isinstance(self.node, Scalar) else None,)

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The values."""
        return stored_column(self.node, columns[0])

    def value(self, cells: Sequence[Any]) -> Any:
        """The value."""
        return stored_value(self.node, cells[0])


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """The physical columns of one field, or of a whole leaf that is no struct.

    Args:
        name: The field's name; None for a leaf that is no struct.
        shown: What its columns are, and what a reader sees of them.
    """

    name: str | None
    shown: Finish

    @property
    def node(self) -> Node:
        """What a reader sees."""
        return self.shown.node

    @property
    def finish(self) -> str:
        """The word of its finish."""
        return self.shown.word

    @property
    def hidden(self) -> str | None:
        """What tells states of several kinds apart."""
        return self.shown.hidden

    @property
    def cells(self) -> tuple[str, ...]:
        """The kind of each physical column, a key of ``CELL_TYPES``."""
        return tuple("opaque" if not _is_simple(each) else each.kind for each in self.shown.state)

    @property
    def columns(self) -> tuple[pa.DataType, ...]:
        """The Arrow type of each physical column."""
        return tuple(
            OPAQUE if scalar is None else arrow_type(scalar) for scalar in self.shown.state
        )

    @property
    def value_arrow_type(self) -> pa.DataType:
        """The Arrow type of what a reader sees."""
        return self.shown.value_arrow_type

    def cell_of(self, value: object) -> Any:
        """The plain form of a plain field's value; None is null.

        Raises:
            StateError: When the value does not fit.
        """
        if value is None:
            return None
        return plain_of(value, self.node) if _is_simple(self.node) else pack(self.node, value)

    def cell_maker(self) -> Callable[[Any], Any]:
        """:meth:`cell_of`, quick for the usual values of numbers."""
        full = self.cell_of
        if not _is_simple(self.node) or self.node.kind not in ("int", "float"):
            return full
        if self.node.kind == "float":
            return lambda value: value if type(value) is float else full(value)
        low, high = INT64_MIN, INT64_MAX
        return lambda value: value if type(value) is int and low <= value <= high else full(value)

    def finisher(self) -> Callable[[Any], Any] | None:
        """What a reader sees of a field that is one column; None where that changes nothing."""
        if isinstance(self.shown, Plain) and _is_simple(self.node):
            return from_plain(self.node.kind)
        value = self.shown.value
        return lambda cell: value((cell,))


def _is_simple(node: Node | None) -> TypeGuard[Scalar]:
    return isinstance(node, Scalar) and node.kind != "tuple"
