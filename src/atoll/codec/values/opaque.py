"""Opaque values: lists and nested collections kept whole, as msgpack with Python's own types back.

The shape of the value comes from its node, so the bytes hold no names and no types: structs are
arrays in the order of their fields, maps are arrays of pairs sorted by key, sets are sorted arrays,
dates are days, instants are microseconds, decimals are text. Packing checks every member.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from atoll.codec.keys.elements import encode_element
from atoll.codec.scalars import decimal_of, fit, plain_of, value_of
from atoll.errors import StateError
from atoll.objects import as_row
from atoll.schema import List, Map, Node, Scalar, Set, Struct

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder()

_Step = Callable[[Any], Any]


def pack(node: Node, value: object) -> bytes:
    """The bytes of a value of this node; None has bytes of its own.

    Raises:
        StateError: When the value, or a member of it, does not fit.
    """
    return b"\xc0" if value is None else _ENCODER.encode(_freezer(node)(value))


def unpack(node: Node, data: bytes | memoryview) -> Any:
    """The value that :func:`pack` packed.

    Raises:
        StateError: When the bytes are no such value.
    """
    try:
        return _thaw(node, _DECODER.decode(data))
    except (msgspec.DecodeError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise StateError(
            "these bytes are no value of this schema",
            hint="they were damaged, or written under another schema",
            value=bytes(data[:64]).hex(),
        ) from error


def _thaw(node: Node, plain: Any) -> Any:
    if plain is None:
        return None
    thawer = _thawer(node)
    return plain if thawer is None else thawer(plain)


def encode_plain(plain: Any) -> bytes:
    """The bytes of a plain form that :func:`decode_plain` gave, or of a list of such."""
    return _ENCODER.encode(plain)


def decode_plain(data: bytes | memoryview) -> Any:
    """The plain form that the bytes hold.

    Raises:
        StateError: When they hold none.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise StateError(
            "these bytes are no value",
            hint="they were damaged",
            value=bytes(data[:64]).hex(),
        ) from error


def plain_forms_sort(node: Node) -> bool:
    """Whether plain forms sort, and are equal, as their values do: not floats, not decimals."""
    match node:
        case Scalar("tuple", _, items):
            return all(map(plain_forms_sort, items))
        case Scalar(kind):
            return kind not in ("float", "decimal")
        case Struct(fields):
            return all(plain_forms_sort(field) for _, field in fields)
    return False


def arrow_ready(node: Node, value: Any) -> Any:
    """The value as Arrow builds a column of ``value_type(node)`` from it.

    Sets become sorted lists, maps lists of pairs sorted by key, tuples dicts of ``f0``, ``f1``.
    """
    if value is None:
        return None
    match node:
        case Scalar("tuple", _, items):
            members = zip(items, value, strict=True)
            return {f"f{i}": arrow_ready(item, m) for i, (item, m) in enumerate(members)}
        case List(Scalar(kind)) if kind != "tuple":
            return value
        case List(item):
            return [arrow_ready(item, member) for member in value]
        case Set(item):
            ordered = sorted(value, key=lambda member: encode_element(member, item))
            return [arrow_ready(item, member) for member in ordered]
        case Map(key, item):
            pairs = sorted(value.items(), key=lambda pair: encode_element(pair[0], key))
            return [(arrow_ready(key, k), arrow_ready(item, v)) for k, v in pairs]
        case Struct(fields):
            return {name: arrow_ready(field, value[name]) for name, field in fields}
    return value


# --- Python value to plain form --------------------------------------------------------------


@lru_cache(maxsize=1024)
def _freezer(node: Node) -> _Step:
    match node:
        case Scalar():
            return _scalar_freezer(node)
        case List(item):
            return _list_freezer(_freezer(item))
        case Set(item):
            return _set_freezer(item, _freezer(item))
        case Map(key, value):
            return _map_freezer(key, _freezer(key), _freezer(value))
        case Struct():
            return _struct_freezer(tuple((name, _freezer(field)) for name, field in node.fields))


def _scalar_freezer(scalar: Scalar) -> _Step:
    if scalar.kind == "tuple":
        members = tuple(map(_freezer, scalar.items))

        def freeze_tuple(value: Any) -> Any:
            checked = fit(value, scalar)
            if checked is None:
                return None
            return [freeze(member) for freeze, member in zip(members, checked, strict=True)]

        return freeze_tuple
    if scalar.kind == "decimal":  # its units need more bits than msgpack's ints have

        def freeze_decimal(value: Any) -> Any:
            units = plain_of(value, scalar)
            return None if units is None else str(units)

        return freeze_decimal
    return lambda value: plain_of(value, scalar)


def _list_freezer(item: _Step) -> _Step:
    def freeze(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _shape_error(value, "a list")
        return [item(member) for member in value]

    return freeze


def _set_freezer(scalar: Scalar, item: _Step) -> _Step:
    def freeze(value: Any) -> Any:
        if not isinstance(value, set | frozenset):
            raise _shape_error(value, "a set")
        return [item(member) for member in sorted(value, key=lambda m: encode_element(m, scalar))]

    return freeze


def _map_freezer(scalar: Scalar, key: _Step, item: _Step) -> _Step:
    def freeze(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _shape_error(value, "a dict")
        pairs = sorted(((encode_element(k, scalar), k, v) for k, v in value.items()), key=_FIRST)
        return [[key(k), None if v is None else item(v)] for _, k, v in pairs]

    return freeze


_FIRST = itemgetter(0)


def _struct_freezer(fields: tuple[tuple[str, _Step], ...]) -> _Step:
    names = frozenset(name for name, _ in fields)

    def freeze(value: Any) -> Any:
        members = check_struct(value, names)
        pairs = [(step, members.get(name)) for name, step in fields]
        return [None if member is None else step(member) for step, member in pairs]

    return freeze


def check_struct(value: object, names: frozenset[str]) -> dict[Any, Any]:
    """The value, when it is a dict of the struct's fields only; fields may be left out.

    An object of a class with such fields is taken as the dict of them.

    Raises:
        StateError: When it is no dict, or has a field too many.
    """
    if not isinstance(value, dict):
        value = as_row(value)
    if not isinstance(value, dict):
        raise _shape_error(value, "a dict with the struct's fields")
    unknown = [name for name in value if name not in names]
    if unknown:
        raise StateError(
            f"the struct has no field {unknown[0]!r}",
            hint=f"its fields: {', '.join(sorted(names))}",
        )
    return value


def _shape_error(value: object, wanted: str) -> StateError:
    return StateError(
        f"a value of type {type(value).__name__} is not {wanted}", hint=f"give {wanted}"
    )


# --- plain form to Python value --------------------------------------------------------------


@lru_cache(maxsize=1024)
def _thawer(node: Node) -> _Step | None:
    """None where the plain form is the value already."""
    match node:
        case Scalar("tuple", _, items):
            return _tuple_thawer(items)
        case Scalar("decimal"):
            return lambda text: decimal_of(int(text))
        case Scalar("bool" | "date" | "datetime" as kind):
            return lambda plain: value_of(plain, kind)
        case Scalar():
            return None
        case List(item):
            return None if _thawer(item) is None else lambda plain: [_thaw(item, m) for m in plain]
        case Set(item):
            return lambda plain: {_thaw(item, m) for m in plain}
        case Map(key, value):
            return lambda plain: {_thaw(key, k): _thaw(value, v) for k, v in plain}
        case Struct(fields):
            return lambda plain: {
                name: _thaw(field, member)
                for (name, field), member in zip(fields, plain, strict=True)
            }


def _tuple_thawer(items: tuple[Scalar, ...]) -> _Step:
    def thaw_tuple(plain: Any) -> Any:
        return tuple(_thaw(item, member) for item, member in zip(items, plain, strict=True))

    return thaw_tuple
