"""The two spellings of a schema, everywhere the same: Spark's DDL text, and Python's types.

========================  =============================  =========================
Python                    column                         in a PState
========================  =============================  =========================
bool, int, float          boolean, long, double          the same
str, bytes, uuid.UUID     string, binary, string         str, bytes, str
date, datetime, Decimal   date, timestamp,               the same
                          decimal(38, 18)
list[T], set[T]           array<T>                       List(T), Set(T)
dict[K, V]                map<K, V>                      Map(K, V)
tuple[A, B]               struct<f0 A, f1 B>             a key or value of two
a class with fields       struct, or the whole record    Struct(...)
X | None                  a column that may be null      X | None
Annotated[int, "short"]   the type of the text           as ``int``
========================  =============================  =========================

Arrow's schemas and types are taken as well.
"""

from __future__ import annotations

import types
import typing
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from atoll.arrow_types import value_type
from atoll.ddl import parse_ddl, to_ddl, type_in_words
from atoll.errors import DeclarationError
from atoll.objects import class_fields
from atoll.schema import List, Map, Node, Scalar, Struct, as_node

_HINT = (
    'write "name string, amount long", or give a class with fields: a dataclass, a TypedDict, a '
    "NamedTuple, a msgspec.Struct or a pydantic model"
)


def columns_of(given: Any) -> pa.Schema:
    """The columns that a user wrote down, in either spelling.

    Args:
        given: DDL text, a class with fields, or an Arrow schema.

    Raises:
        DeclarationError: When it is none of these, or a column cannot be.
    """
    if isinstance(given, str):
        return parse_ddl(given)
    if isinstance(given, pa.Schema):
        return parse_ddl(to_ddl(given))
    fields = class_fields(given)
    if fields is None:
        raise DeclarationError(f"{given!r} is no schema", hint=_HINT)
    if not fields:
        raise DeclarationError(f"{given.__name__} has no fields", hint=_HINT)
    as_node(given)  # refuses what cannot be by name
    schema = pa.schema([_column(name, each) for name, each in fields.items()])
    return parse_ddl(to_ddl(schema))


def node_of(given: Any) -> Node:
    """The schema of a PState, or the type of a parameter, in either spelling.

    Args:
        given: What :func:`~atoll.schema.as_node` takes; or DDL text, of a type (``"long"``,
            ``"map<string, long>"``) or of a struct's fields (``"n long, at timestamp"``); or an
            Arrow type or schema.

    Raises:
        DeclarationError: When it is none of these.
    """
    match given:
        case str():
            return _of_text(given)
        case pa.DataType():
            return _of_arrow(given)
        case pa.Schema():
            return _of_arrow(pa.struct(list(given)))
    return as_node(given)


def _of_text(text: str) -> Node:
    try:
        one = parse_ddl(f"v {text}")
    except DeclarationError:
        one = None
    if one is not None and len(one) == 1:
        return _of_arrow(one.field(0).type)
    return _of_arrow(pa.struct(list(parse_ddl(text))))


def _of_arrow(kind: pa.DataType) -> Node:
    """The node for a type of columns; what a struct's field may lack, it may lack."""
    if pt.is_list(kind):
        return List(_of_arrow(kind.value_type))
    if pt.is_map(kind):
        return Map(_of_arrow(kind.key_type), _of_arrow(kind.item_type))
    if pt.is_struct(kind):
        return Struct(**{field.name: _optional(field) for field in kind})
    for known, scalar in _SCALARS:
        if known(kind):
            return Scalar(scalar)
    raise DeclarationError(
        f"{type_in_words(kind)} is no type that a PState can hold",
        hint="use boolean, long, double, string, binary, date, timestamp, decimal, array, map or "
        "struct",
    )


def _optional(field: pa.Field) -> Node:
    node = _of_arrow(field.type)
    if isinstance(node, Scalar) and field.nullable:
        return Scalar(node.kind, optional=True, items=node.items)
    return node


_SCALARS = (
    (pt.is_boolean, "bool"),
    (pt.is_integer, "int"),
    (pt.is_floating, "float"),
    (pt.is_string, "str"),
    (pt.is_binary, "bytes"),
    (pt.is_date32, "date"),
    (pt.is_timestamp, "datetime"),
    (pt.is_decimal, "decimal"),
)


def _column(name: str, hint: Any) -> pa.Field:
    kind, nullable = _type_of(hint)
    return pa.field(name, kind, nullable=nullable)


def _type_of(hint: Any) -> tuple[pa.DataType, bool]:
    """The Arrow type of a field, and whether it may be null."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Required:
        return _type_of(members[0])
    if origin is typing.NotRequired:
        return _type_of(members[0])[0], True
    if origin is typing.Annotated:
        named = next((each for each in hint.__metadata__ if _names_type(each)), None)
        inner, nullable = _type_of(members[0])
        return (inner if named is None else _named(named)), nullable
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in members if each is not type(None))
        return _type_of(inner)[0], True
    if isinstance(hint, typing.NewType):
        return _type_of(hint.__supertype__)
    fields = class_fields(hint)
    if fields is not None:
        return pa.struct([_column(name, each) for name, each in fields.items()]), False
    if origin in _LISTS and members:
        return pa.list_(_type_of(members[0])[0]), False
    if origin in _MAPS:
        return pa.map_(_type_of(members[0])[0], _type_of(members[1])[0]), False
    return value_type(as_node(hint)), False


_LISTS = (list, set, frozenset)
_MAPS = (dict,)


def _names_type(note: object) -> bool:
    return isinstance(note, str | pa.DataType)


def _named(note: Any) -> pa.DataType:
    return note if isinstance(note, pa.DataType) else parse_ddl(f"v {note}").field(0).type
