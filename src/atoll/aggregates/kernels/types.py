"""Which Arrow columns fit which schema, and the casts that keep every value exactly."""

from __future__ import annotations

import contextlib
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.arrow_types import OPAQUE, SCALE_MAX, column_type, holds, kind_of
from atoll.errors import DataError
from atoll.exact_values import exact_array, holds_decimals, sound_decimals
from atoll.schema import List, Map, Node, Scalar, Set, Struct

if TYPE_CHECKING:
    from atoll.aggregates.base import Packing


_is = pa.types

_DIGITS_MAX = 76
"""Of Arrow's widest decimals."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def accepts(node: Node, arrow_type: pa.DataType) -> bool:
    """Whether columns of that type can be kept under that schema without losing anything."""
    match node:
        case Scalar("tuple", _, items):
            return _accepts_members(items, arrow_type)
        case Scalar(wanted):
            return _accepts_scalar(wanted, arrow_type)
        case List(item):
            is_list = _is.is_list(arrow_type) or _is.is_large_list(arrow_type)
            return is_list and accepts(item, arrow_type.value_type)
        case Struct(fields):
            return _accepts_fields(dict(fields), arrow_type)
        case Map() | Set():
            return False


def _accepts_scalar(wanted: str, arrow_type: pa.DataType) -> bool:
    if wanted == "decimal" and _is.is_decimal(arrow_type):
        return int(arrow_type.scale) <= SCALE_MAX
    return holds(arrow_type, wanted)


def _accepts_fields(fields: dict[str, Node], arrow_type: pa.DataType) -> bool:
    if not _is.is_struct(arrow_type):
        return False
    given = {member.name: member.type for member in arrow_type}
    return given.keys() == fields.keys() and all(
        accepts(field, given[name]) for name, field in fields.items()
    )


def _accepts_members(items: tuple[Scalar, ...], arrow_type: pa.DataType) -> bool:
    if not _is.is_struct(arrow_type) or arrow_type.num_fields != len(items):
        return False
    return all(accepts(item, member.type) for item, member in zip(items, arrow_type, strict=True))


def fitted(array: pa.Array, node: Node, label: object, packing: Packing | None) -> pa.Array:
    """The column as the one physical column of a field of that schema.

    Args:
        array: A column that the schema accepts.
        node: The field's schema.
        label: The aggregate, for errors.
        packing: Needed where the field is opaque.

    Raises:
        DataError: When a value cannot be kept exactly.
    """
    if _is.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = column_type(node)
    if array.type == wanted and wanted != OPAQUE:
        return array
    if not isinstance(node, Scalar):
        return _packed(array, node, packing)
    if node.kind == "tuple":
        return _tuples(array, node, label)
    try:
        return exact_cast(array, wanted, safe=node.kind != "float")
    except pa.ArrowInvalid as error:
        raise DataError(
            f"agg.{label} met a value that {node} cannot keep exactly: {error}",
            hint="cast the expression to a type whose values fit",
        ) from error


def exact_cast(array: pa.Array, wanted: pa.DataType, *, safe: bool = True) -> pa.Array:
    """Arrow's cast, but for decimals of another scale, and for what becomes decimals.

    Arrow loses the high digits of decimals of more than 38 at another scale, so their scale is
    changed with room for 76, and the cast back says which do not fit. What needs still more room,
    is nested or is text goes by way of Python's numbers.

    Raises:
        pa.ArrowInvalid: When a value does not fit.
        pa.ArrowTypeError: When a value that lies in a list, map or struct is of another type.
    """
    found = array.type
    if found == wanted or not (holds_decimals(found) or holds_decimals(wanted)):
        return array.cast(wanted, safe=safe)
    if not sound_decimals(found):
        raise pa.ArrowInvalid(f"no decimals of the scale of {found} can be read")
    if _is.is_decimal(wanted) and _is.is_decimal(found) and found.scale != wanted.scale:
        if found.precision + wanted.scale - found.scale > _DIGITS_MAX:
            return exact_array(array.to_pylist(), wanted)
        array = array.cast(pa.decimal256(_DIGITS_MAX, wanted.scale))
    elif _is.is_decimal(wanted) and kind_of(found) == "str":
        return exact_array([_number(text) for text in array.to_pylist()], wanted)
    elif _is.is_nested(wanted):
        return exact_array(array.to_pylist(), wanted)
    return array.cast(wanted, safe=safe)


def _number(text: str | None) -> Decimal | None:
    if text is None:
        return None
    with contextlib.suppress(InvalidOperation):  # an exponent that not even Python takes
        if _NUMBER.fullmatch(text):
            return Decimal(text)
    raise pa.ArrowInvalid(f"{text[:80]!r} is no decimal number")


def _packed(array: pa.Array, node: Node, packing: Packing | None) -> pa.Array:
    assert packing is not None, "aggregates of collections are bound before they run"
    pack = packing.pack
    values = array.to_pylist()
    return pa.array([None if v is None else pack(node, conform(v, node)) for v in values], OPAQUE)


def _tuples(array: pa.Array, node: Scalar, label: object) -> pa.Array:
    members = [
        fitted(member, item, label, None)
        for member, item in zip(array.flatten(), node.items, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(column_type(node)), mask=mask)


def conform(value: Any, node: Node) -> Any:
    """A value as Arrow gives it, in the Python form that its schema names: tuples are tuples."""
    if value is None:
        return None
    match node:
        case Scalar("tuple", _, items):
            return tuple(conform(v, item) for v, item in zip(value.values(), items, strict=True))
        case Scalar("float"):
            return float(value)
        case List(item):
            return [conform(member, item) for member in value]
        case Struct(fields):
            return {name: conform(value[name], field) for name, field in fields}
    return value
