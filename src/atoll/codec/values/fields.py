"""The physical columns of one field, and how they become what a reader sees (the finish).

========== ================================  ==================================================
finish     physical columns                  value
========== ================================  ==================================================
plain      the value                         the value
avg        sum (float or int), count (int)   sum / count as float; None where the count is 0
ordered    order, the value                  the value (of the row whose order won)
top        opaque: (order, value) pairs      the list of the values
distinct   opaque: a sketch                  about how many distinct values it saw
percentile opaque: a histogram               the value near a rank, or the list of several
set        opaque: elements as keys          the list of the elements, in their order
size       opaque: elements as keys          how many there are
map        opaque: keys and states           the map from key to what its state shows
boxed      opaque: a state of several        what the state shows
           columns
========== ================================  ==================================================

The hidden parts (an average's sum, the order of others, what estimates rest on) are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.arrow_types import arrow_type, value_type
from atoll.codec.keys.decode import decode_columns
from atoll.codec.keys.elements import decode_element
from atoll.codec.scalars import INT64_MAX, INT64_MIN, from_plain, plain_of, value_of
from atoll.codec.values.layout import CELL_TYPES
from atoll.codec.values.opaque import arrow_ready, decode_plain, pack, unpack
from atoll.schema import List, Node, Scalar, Struct

Finish = Literal[
    "plain", "avg", "ordered", "top", "distinct", "percentile", "set", "size", "map", "boxed"
]

_OPAQUE_FINISHES = frozenset({"top", "distinct", "percentile", "set", "size", "map", "boxed"})


class Inner(Protocol):
    """The codec of states that lie inside of an opaque column."""

    @property
    def value_arrow_type(self) -> pa.DataType:
        """The type of what a reader sees."""

    def decode_columns(self, values: Sequence[bytes | None]) -> list[pa.Array]:
        """The physical columns."""

    def finish_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """What a reader sees."""

    def decode(self, data: bytes) -> Any:
        """What a reader sees of one state."""


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """The physical columns of one field, or of a whole leaf that is no struct.

    Args:
        name: The field's name; None for a leaf that is no struct.
        node: What a reader sees.
        finish: How the columns become what a reader sees.
        hidden: Of averages and orders the scalar kind of the hidden part; of a distinct count
            the size of its sketch; of percentiles the error and the percentages; of maps and of
            what is boxed the finishes of the states inside, as JSON.
        inner: The codec of the states inside.
    """

    name: str | None
    node: Node
    finish: Finish = "plain"
    hidden: str | None = None
    inner: Inner | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The kind of each physical column, a key of ``CELL_TYPES``."""
        own = self.node.kind if _is_simple(self.node) else "opaque"
        if self.finish == "avg":
            return (self.hidden or "float", "int")
        if self.finish == "ordered":
            return (self.hidden or "int", own)
        return ("opaque",) if self.finish in _OPAQUE_FINISHES else (own,)

    @property
    def columns(self) -> tuple[pa.DataType, ...]:
        """The Arrow type of each physical column."""
        types = [CELL_TYPES[cell] for cell in self.cells]
        if isinstance(self.node, Scalar) and self.finish in {"plain", "ordered"}:
            types[-1] = arrow_type(self.node)
        return tuple(types)

    @property
    def value_arrow_type(self) -> pa.DataType:
        """The Arrow type of what a reader sees."""
        if self.inner is None:
            return value_type(self.node)
        inside = self.inner.value_arrow_type
        return pa.map_(arrow_type(self._element), inside) if self.finish == "map" else inside

    @property
    def _element(self) -> Scalar:
        """What the elements of a set, or the keys of a map, are."""
        assert isinstance(self.node, List)
        item = self.node.item
        element = item.fields[0][1] if isinstance(item, Struct) else item
        assert isinstance(element, Scalar)
        return element

    @property
    def opaque_node(self) -> Node:
        """What an opaque column of this field holds; for ``top``, a list of pairs."""
        if self.finish == "top" and isinstance(self.node, List):
            order = Scalar(self.hidden or "int", optional=True)
            return List(Struct(order=order, value=self.node.item))
        return self.node

    def pack_column(self, values: Sequence[Any]) -> pa.Array:
        """The opaque column of these values (for ``top``: lists of ``(order, value)`` pairs).

        Raises:
            StateError: When a value does not fit.
        """
        if self.finish == "top":
            values = [v and [{"order": o, "value": x} for o, x in v] for v in values]
        node = self.opaque_node
        return pa.array([None if v is None else pack(node, v) for v in values], pa.binary())

    def unpack_column(self, column: pa.Array) -> list[Any]:
        """The values of an opaque column, the inverse of :meth:`pack_column`."""
        node = self.opaque_node
        values = [None if data is None else unpack(node, data) for data in column.to_pylist()]
        if self.finish == "top":
            return [v and [(pair["order"], pair["value"]) for pair in v] for v in values]
        return values

    def finish_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """What a reader sees, as one array."""
        if self.finish == "avg":
            total, count = columns
            mean = pc.divide(
                total.cast(pa.float64(), safe=False), count.cast(pa.float64(), safe=False)
            )
            return pc.if_else(pc.equal(count, 0), pa.scalar(None, pa.float64()), mean)
        if self.finish in {"distinct", "percentile"}:
            shown = [None if data is None else self._shown(data) for data in columns[0].to_pylist()]
            return pa.array(shown, self.value_arrow_type, from_pandas=False)
        if self.finish == "boxed":
            assert self.inner is not None
            return self.inner.finish_columns(self.inner.decode_columns(columns[0].to_pylist()))
        if self.finish in {"set", "size", "map"}:
            states = columns[0].to_pylist()
            held = [None if data is None else decode_plain(data) for data in states]
            return self._collections(held)
        if isinstance(self.node, Scalar):
            return columns[-1]
        values = self.unpack_column(columns[-1])
        if self.finish == "top":
            values = [v and [value for _, value in v] for v in values]
        return pa.array([arrow_ready(self.node, v) for v in values], self.value_arrow_type)

    def finish_cells(self, cells: Sequence[Any]) -> Any:
        """What a reader sees, from the plain forms of one row's cells."""
        if self.finish == "avg":
            total, count = cells
            return float(total) / count if total is not None and count else None
        last = cells[-1]
        if last is None:
            return None
        if self.finish in {"distinct", "percentile"}:
            return self._shown(last)
        if self.finish in {"set", "size", "map", "boxed"}:
            return self._shown_collection(last)
        if _is_simple(self.node):
            return value_of(last, self.node.kind)
        value = unpack(self.opaque_node, last)
        return [pair["value"] for pair in value] if self.finish == "top" else value

    def _collections(self, held: list[Any]) -> pa.Array:
        """The sets, their sizes or the maps that lie in columns of keys and states."""
        if self.finish == "size":
            return pa.array([None if each is None else len(each) for each in held], pa.int64())
        flat = [entry for each in held for entry in each or ()]
        ends = np.cumsum([0, *(0 if each is None else len(each) for each in held)])
        mask = np.array([each is None for each in held] + [False])
        offsets = pa.array(ends.astype(np.int32), mask=mask)
        if self.finish == "set":
            return pa.ListArray.from_arrays(offsets, decode_columns(flat, [self._element])[0])
        assert self.inner is not None
        keys = decode_columns([key for key, _ in flat], [self._element])[0]
        states = self.inner.decode_columns([state for _, state in flat])
        return pa.MapArray.from_arrays(offsets, keys, self.inner.finish_columns(states))

    def _shown_collection(self, state: bytes) -> Any:
        """The same of one row."""
        if self.finish == "boxed":
            assert self.inner is not None
            return self.inner.decode(state)
        held = decode_plain(state)
        if self.finish == "size":
            return len(held)
        if self.finish == "set":
            return [decode_element(element, 0)[0] for element in held]
        assert self.inner is not None
        decode = self.inner.decode
        return {decode_element(key, 0)[0]: decode(inside) for key, inside in held}

    def _shown(self, state: bytes) -> Any:
        """The estimate that rests on a sketch or a histogram."""
        if self.finish == "distinct":
            from atoll.aggregates.kernels.distinct import estimate

            return estimate(bytes(state))
        from atoll.aggregates.kernels.histograms import percentiles

        error, *wanted = map(float, str(self.hidden).split(";"))
        values = percentiles(bytes(state), error, wanted)
        return values[0] if values and isinstance(self.node, Scalar) else values

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
        """:meth:`finish_cells` of a field that is one column; None where that changes nothing."""
        if self.finish == "plain" and _is_simple(self.node):
            return from_plain(self.node.kind)
        return lambda cell: self.finish_cells((cell,))


def _is_simple(node: Node) -> TypeGuard[Scalar]:
    return isinstance(node, Scalar) and node.kind != "tuple"
