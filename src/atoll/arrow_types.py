"""The Arrow types of what a schema says, and what columns of an Arrow type may hold.

The only table of both: keys, values, aggregates and depots all take their types from here.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from atoll.ddl import type_in_words
from atoll.errors import DeclarationError
from atoll.schema import List, Map, Node, Scalar, Set, Struct

_is = pa.types

SCALE_MAX = 18
"""The digits after the point that a decimal keeps, as Spark's own type for Python's Decimal."""

TIMESTAMP = pa.timestamp("us", "UTC")

OPAQUE = pa.binary()
"""A column of packed Python values: lists, and structs inside of structs."""

SCALAR_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "datetime": TIMESTAMP,
    "decimal": pa.decimal128(38, SCALE_MAX),
}
"""The one type of the columns of each kind of scalar, but for tuples."""

_KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "bool": _is.is_boolean,
    "int": _is.is_integer,
    "float": _is.is_floating,
    "str": lambda t: _is.is_string(t) or _is.is_large_string(t) or _is.is_string_view(t),
    "bytes": lambda t: (
        _is.is_binary(t)
        or _is.is_large_binary(t)
        or _is.is_fixed_size_binary(t)
        or _is.is_binary_view(t)
    ),
    "date": _is.is_date,
    "datetime": lambda t: _is.is_timestamp(t) and t.tz is not None,
    "decimal": _is.is_decimal,
}
"""Whether columns of a type, whatever their width, hold values of a kind."""


_WIDER = {("int", "float"), ("int", "decimal")}


def arrow_type(scalar: Scalar) -> pa.DataType:
    """The Arrow type of a column of this scalar.

    A decimal has 38 digits, 18 of them after the point; a tuple is a struct with the fields
    ``f0``, ``f1`` and so on.
    """
    if scalar.kind == "tuple":
        members = [pa.field(f"f{i}", arrow_type(item)) for i, item in enumerate(scalar.items)]
        return pa.struct(members)
    return SCALAR_TYPES[scalar.kind]


def value_type(node: Node) -> pa.DataType:
    """The Arrow type of a column of whole values of this node; a set is a list there."""
    match node:
        case Scalar():
            return arrow_type(node)
        case List(item) | Set(item):
            return pa.list_(value_type(item))
        case Map(key, value):
            return pa.map_(value_type(key), value_type(value))
        case Struct():
            return pa.struct([pa.field(name, value_type(field)) for name, field in node.fields])


def column_type(node: Node) -> pa.DataType:
    """The type of the one physical column of a stored field: a scalar's own, else opaque."""
    return arrow_type(node) if isinstance(node, Scalar) else OPAQUE


def leaf_types(node: Node) -> tuple[pa.DataType, ...]:
    """The types of a plain leaf's physical columns: a struct has one for each field."""
    if isinstance(node, Struct):
        return tuple(column_type(field) for _, field in node.fields)
    return (column_type(node),)


def kind_of(found: pa.DataType) -> str | None:
    """The scalar kind of a column of that type, or None."""
    if _is.is_dictionary(found):
        return kind_of(found.value_type)
    return next((kind for kind, test in _KINDS.items() if test(found)), None)


def holds(found: pa.DataType, kind: str) -> bool:
    """Whether columns of that type, widened where need be, hold values of a kind."""
    own = kind_of(found)
    return own is not None and (own == kind or (own, kind) in _WIDER)


def node_of(found: pa.DataType) -> Node:
    """The schema that a column of that type fits best.

    Raises:
        DeclarationError: When a PState can hold no such values.
    """
    kind = kind_of(found)
    if kind is not None:
        return Scalar(kind, optional=True)
    if _is.is_list(found) or _is.is_large_list(found):
        return List(node_of(found.value_type))
    if _is.is_struct(found):
        return Struct(**{member.name: node_of(member.type) for member in found})
    hint = "cast it to a type that a PState holds"
    if _is.is_timestamp(found):
        hint = "cast it to timestamp: a PState holds instants, in UTC"
    raise DeclarationError(f"a PState holds no values of type {type_in_words(found)}", hint=hint)
