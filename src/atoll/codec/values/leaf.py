"""Leaf codecs: how one leaf's value becomes bytes in a store.

A leaf (a scalar, a list, a struct of leaves) is kept as a row of *physical columns*: a scalar
is one column, a struct the columns of its fields one after the other, anything nested one
opaque column of msgpack bytes. An aggregate may keep more than its value shows: an average is
a sum and a count. Such a field is *finished* when it is read, as its aggregate says
(:mod:`atoll.aggregates.finish`), and only its aggregate writes it.

Null is a value of every codec. A struct is null when all its columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import atoll.agg
import atoll.aggregates.valued.columns  # noqa: F401 - with agg, each aggregate's finish is known
from atoll.aggregates.finish import Unpacking, known_finish
from atoll.arrow_types import arrow_type
from atoll.codec.fit_column import fit_column
from atoll.codec.keys.decode import decode_columns
from atoll.codec.keys.elements import decode_element
from atoll.codec.values.fields import FieldLayout, shown_array, stored_column, stored_value
from atoll.codec.values.layout import RowLayout
from atoll.codec.values.opaque import arrow_ready, check_struct, decode_plain, pack, unpack
from atoll.errors import DeclarationError, StateError
from atoll.schema import Map, Node, Scalar, Set, Struct, from_json, to_json

_BYTES = Scalar("bytes", optional=True)


@dataclass(frozen=True)
class LeafCodec:
    """How one leaf's value becomes bytes in a store, by value or in whole columns.

    Args:
        fields: The leaf's fields; one without a name when it is no struct.
        struct: Whether the leaf is a struct.
    """

    fields: tuple[FieldLayout, ...]
    struct: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was declared; the rest is computed again."""
        return (LeafCodec, (self.fields, self.struct))

    @cached_property
    def columns(self) -> tuple[pa.DataType, ...]:
        """The Arrow type of each physical column."""
        return tuple(kind for field in self.fields for kind in field.columns)

    @cached_property
    def value_arrow_type(self) -> pa.DataType:
        """The Arrow type of :meth:`finish_columns`."""
        if not self.struct:
            return self.fields[0].value_arrow_type
        return pa.struct([pa.field(f.name, f.value_arrow_type) for f in self.fields])

    @cached_property
    def hidden(self) -> bool:
        """Whether a field keeps hidden state, so that only its aggregate may write the leaf."""
        return any(field.finish != "plain" for field in self.fields)

    @cached_property
    def _parts(self) -> tuple[tuple[FieldLayout, slice], ...]:
        """Each field with its part of the physical columns."""
        parts = []
        start = 0
        for field in self.fields:
            end = start + len(field.cells)
            parts.append((field, slice(start, end)))
            start = end
        return tuple(parts)

    @cached_property
    def _layout(self) -> RowLayout:
        return RowLayout([cell for field in self.fields for cell in field.cells])

    @cached_property
    def _scalars(self) -> tuple[Scalar, ...]:
        """The scalar of each physical column; bytes for an opaque one."""
        return tuple(
            _BYTES if scalar is None else _stored(scalar)
            for field in self.fields
            for scalar in field.shown.state
        )

    # --- whole columns --------------------------------------------------------------------

    def encode_columns(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """The bytes of each row of these physical columns.

        Raises:
            StateError: When there are not as many columns as :attr:`columns`, one has another
                type, or a value cannot be kept exactly.
        """
        if len(columns) != len(self._scalars):
            raise StateError(
                f"a value of {len(self._scalars)} columns got {len(columns)}",
                hint="give the physical columns of every field in order",
            )
        fitted = []
        for number, (column, scalar) in enumerate(zip(columns, self._scalars, strict=True)):
            array = fit_column(column, scalar, place=f"value column {number}")
            if scalar.kind == "tuple":
                array = _pack_tuples(array, scalar)
            fitted.append(array)
        return self._layout.encode_columns(fitted)

    def decode_columns(self, values: Sequence[bytes | None]) -> list[pa.Array]:
        """The physical columns of these rows; null in all of them where a row is None.

        Raises:
            StateError: When some bytes are no value of this codec.
        """
        columns = self._layout.decode_columns(values)
        for number, scalar in enumerate(self._scalars):
            if scalar.kind == "tuple":
                columns[number] = _unpack_tuples(columns[number], scalar)
        return columns

    def finish_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """What a reader sees of these physical columns, as one array."""
        finished = [field.shown.column(columns[part]) for field, part in self._parts]
        if not self.struct:
            return finished[0]
        absent = columns[0].is_null()
        for column in columns[1:]:
            absent = pc.and_(absent, column.is_null())
        return pa.StructArray.from_arrays(finished, fields=list(self.value_arrow_type), mask=absent)

    # --- one value ------------------------------------------------------------------------

    def encode(self, value: object) -> bytes:
        """The bytes of one value: a Python value, a list, or a dict of a struct's fields.

        Fields that are None or left out of a dict are null.

        Raises:
            StateError: When the value does not fit, or the leaf has hidden state.
        """
        if self.hidden:
            raise StateError(
                "this value has hidden state that only its aggregate writes",
                hint="change it with the aggregate that declared it",
            )
        if not self.struct:
            return self._layout.encode_row([self.fields[0].cell_of(value)])
        if value is None:
            return self._layout.encode_row([None] * len(self.fields))
        members = check_struct(value, self._names)
        get = members.get
        return self._layout.encode_row([make(get(name)) for name, make in self._cell_makers])

    def decode(self, data: bytes | memoryview) -> Any:
        """The value of these bytes as a reader sees it, hidden state finished.

        Raises:
            StateError: When the bytes are no value of this codec.
        """
        cells = self._layout.decode_row(data)
        if not self.struct:
            return self._sole_value(cells)
        if cells.count(None) == len(cells):
            return None
        finishers = self._finishers
        if len(finishers) == len(cells):  # every field is one column
            pairs = zip(finishers, cells, strict=True)
            return {
                name: cell if finish is None or cell is None else finish(cell)
                for (name, finish), cell in pairs
            }
        return {field.name: field.shown.value(cells[part]) for field, part in self._parts}

    @cached_property
    def _sole_value(self) -> Callable[[Sequence[Any]], Any]:
        """What a reader sees of the cells of a leaf that is no struct."""
        return self.fields[0].shown.value

    @cached_property
    def _cell_makers(self) -> tuple[tuple[str | None, Callable[[Any], Any]], ...]:
        """How the value of each field becomes the plain form of its column."""
        return tuple((field.name, field.cell_maker()) for field in self.fields)

    @cached_property
    def _finishers(self) -> tuple[tuple[str | None, Callable[[Any], Any] | None], ...]:
        """How the only column of each field becomes its value; None where it is the value."""
        return tuple((field.name, field.finisher()) for field in self.fields)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.name is not None)

    # --- JSON -----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data, for the deployment object; :meth:`from_json` reads it."""
        fields = [
            {"name": f.name, "node": to_json(f.node), "finish": f.finish, "hidden": f.hidden}
            for f in self.fields
        ]
        return {"struct": self.struct, "fields": fields}

    @classmethod
    def from_json(cls, data: Any) -> LeafCodec:
        """The codec that :meth:`to_json` wrote.

        Raises:
            DeclarationError: When the data is no codec.
        """
        try:
            fields = tuple(
                _field(f["name"], from_json(f["node"]), f["finish"], f["hidden"])
                for f in data["fields"]
            )
            return cls(fields, bool(data["struct"]))
        except (KeyError, TypeError) as error:
            raise DeclarationError(
                "the data is no leaf codec", hint="it was written by another version of Atoll"
            ) from error


def leaf_codec(node: Node, finishers: Mapping[str, str] | None = None) -> LeafCodec:
    """The codec of a leaf.

    Args:
        node: A Scalar, a List, or a Struct of leaves.
        finishers: The finish of each field that is not plain, by field name; ``""`` names the
            whole leaf, which is then one field even when it is a struct. What tells states of
            several kinds apart follows a colon: ``"avg:int"``, ``"ordered:datetime"``.

    Raises:
        DeclarationError: When the node is no leaf, or a finish does not suit its field.
    """
    words = dict(finishers or {})
    if isinstance(node, Map | Set) or not node.leaf:
        raise DeclarationError(
            f"{type(node).__name__} is stored by element, not as one value",
            hint="make a codec for each of its leaves",
        )
    by_field = isinstance(node, Struct) and "" not in words
    nodes = node.fields if isinstance(node, Struct) and by_field else ((None, node),)
    fields = []
    for name, member in nodes:
        finish, _, hidden = words.pop(name or "", "plain").partition(":")
        fields.append(_field(name, member, finish, hidden or None))
    if words:
        unknown = next(iter(words))
        raise DeclarationError(f"the leaf has no field {unknown!r}", hint="see its schema")
    return LeafCodec(tuple(fields), by_field)


def _field(name: str | None, node: Node, finish: str, hidden: str | None) -> FieldLayout:
    kind = known_finish(finish)
    if kind is None:
        raise DeclarationError(
            f"what an aggregate keeps is called {finish!r}, which no aggregate here is known by",
            hint="use the release of Atoll that wrote it, or a later one",
        )
    shown = kind(node, hidden or kind.hidden_default, _UNPACKING)
    if not shown.suits():
        raise DeclarationError(
            f"{kind.text(hidden)} does not suit {'the field ' + name if name else 'the leaf'}: "
            f"there is no {node} of which {kind.keeps} is kept so",
            hint="use the aggregate that declared it, into what it gives",
        )
    return FieldLayout(name, shown)


def _element(data: bytes) -> Any:
    return decode_element(data, 0)[0]


def _elements(data: Sequence[bytes], scalar: Scalar) -> pa.Array:
    return decode_columns(data, [scalar])[0]


def _stored(scalar: Scalar) -> Scalar:
    """As a physical column has it: any may be null."""
    return scalar if scalar.kind == "tuple" else Scalar(scalar.kind, optional=True)


def _pack_tuples(array: pa.Array, scalar: Scalar) -> pa.Array:
    rows = [
        None if row is None else pack(scalar, _tuple_of(row, scalar)) for row in array.to_pylist()
    ]
    return pa.array(rows, pa.binary())


def _tuple_of(row: dict[str, Any], scalar: Scalar) -> tuple[Any, ...]:
    return tuple(
        _tuple_of(member, item) if item.kind == "tuple" and member is not None else member
        for member, item in zip(row.values(), scalar.items, strict=True)
    )


def _unpack_tuples(array: pa.Array, scalar: Scalar) -> pa.Array:
    rows = [
        None if data is None else arrow_ready(scalar, unpack(scalar, data))
        for data in array.to_pylist()
    ]
    return pa.array(rows, arrow_type(scalar))


_UNPACKING = Unpacking(
    stored_column,
    stored_value,
    shown_array,
    unpack,
    decode_plain,
    _element,
    _elements,
    leaf_codec,
)
