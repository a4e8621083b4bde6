"""How one record is checked: a msgspec type built from the depot's schema.

msgspec checks a record while it parses it, in C, so checking costs next to nothing. Each schema
becomes a struct type whose attributes are ``f0, f1, ...`` (field names may be no Python names)
and whose encoded names are the schema's. Nested structs become types of their own; what they
yield is turned into what ``pyarrow.array`` takes by a converter, only where there is one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from atoll.errors import DeclarationError
from atoll.python_values import is_tuple

Converter = Callable[[Any], Any]

_SIGNED_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_SIMPLE: dict[pa.DataType, Any] = {
    pa.bool_(): bool,
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): dt.date,
    pa.timestamp("us", "UTC"): dt.datetime,
    pa.timestamp("us"): Annotated[dt.datetime, msgspec.Meta(tz=False)],
}


def record_type(fields: list[pa.Field], *, strict: bool = True) -> type[msgspec.Struct]:
    """The msgspec type of a record (or nested struct) with these fields.

    A field that may be null may also be missing; an unknown field is refused, or left out where
    it is not ``strict``.
    """
    members: list[Any] = []
    for index, field in enumerate(fields):
        declared = value_type(field.type, strict=strict)
        if field.nullable:
            members.append((f"f{index}", declared | None, None))
        else:
            members.append((f"f{index}", declared))
    return msgspec.defstruct(
        "Record",
        members,
        rename={f"f{index}": field.name for index, field in enumerate(fields)},
        forbid_unknown_fields=strict,
        kw_only=True,
        gc=False,
    )


def value_type(arrow_type: pa.DataType, *, strict: bool = True) -> Any:
    """The msgspec type of one value that is not null.

    Raises:
        DeclarationError: When a depot cannot hold the Arrow type.
    """
    if arrow_type in _SIMPLE:
        return _SIMPLE[arrow_type]
    if arrow_type in _SIGNED_BITS:
        bound = 1 << (_SIGNED_BITS[arrow_type] - 1)
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
    if pa.types.is_decimal128(arrow_type):
        return Decimal
    if pa.types.is_list(arrow_type):
        item: Any = value_type(arrow_type.value_type, strict=strict)
        return list[item | None] if arrow_type.value_field.nullable else list[item]
    if pa.types.is_map(arrow_type):
        key: Any = value_type(arrow_type.key_type, strict=strict)
        mapped: Any = value_type(arrow_type.item_type, strict=strict)
        return dict[key, mapped | None]
    if pa.types.is_struct(arrow_type):
        record: Any = record_type(list(arrow_type), strict=strict)
        if not is_tuple(arrow_type):
            return record
        members = [_nullable(value_type(f.type, strict=strict), f) for f in arrow_type]
        return record | tuple[tuple(members)]  # type: ignore[misc]  # made of a schema
    raise DeclarationError(
        f"a depot cannot hold Arrow's type {arrow_type}",
        hint="declare the schema as Spark DDL, or build it with atoll.ddl.parse_ddl",
    )


def _nullable(declared: Any, field: pa.Field) -> Any:
    return declared | None if field.nullable else declared


def converter(arrow_type: pa.DataType) -> Converter | None:
    """What turns a checked value into one that ``pyarrow.array`` takes; None when it is one."""
    if pa.types.is_struct(arrow_type):
        return _struct_converter(list(arrow_type))
    if pa.types.is_list(arrow_type):
        inner = converter(arrow_type.value_type)
        return None if inner is None else _list_converter(inner)
    if pa.types.is_map(arrow_type):
        key, item = converter(arrow_type.key_type), converter(arrow_type.item_type)
        return _map_converter(key or _same, item or _same)
    return None


def _same(value: Any) -> Any:
    return value


def _struct_converter(fields: list[pa.Field]) -> Converter:
    parts = [
        (f"f{index}", field.name, converter(field.type) or _same)
        for index, field in enumerate(fields)
    ]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, tuple):
            pairs = zip(parts, value, strict=True)
            return {name: inner(member) for (_, name, inner), member in pairs}
        return {name: inner(getattr(value, attribute)) for attribute, name, inner in parts}

    return convert


def _list_converter(inner: Converter) -> Converter:
    def convert(value: Any) -> Any:
        return None if value is None else [inner(item) for item in value]

    return convert


def _map_converter(key: Converter, item: Converter) -> Converter:
    def convert(value: Any) -> Any:
        return None if value is None else [(key(k), item(v)) for k, v in value.items()]

    return convert
