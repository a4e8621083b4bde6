"""What a PState may hold: scalars, and maps, sets, lists and structs of them, nested.

A schema is a tree of small frozen nodes. Maps and sets (and structs that contain one) are
*element-wise*: every element is an entry of its own in the store, sorted by key, so that they
may grow without bound and be read by range. Everything else is a *leaf*: one value, read and
written whole. ``None`` in place of an element-wise node means an empty one.

Users write ``dict[str, dict[str, int]]``, ``Map(str, Map(str, int))`` or a class with fields, with
Python's own types for scalars; :func:`as_node` turns that into nodes and refuses what cannot be, at
declaration.
"""

from __future__ import annotations

import builtins
import datetime as dt
import decimal
import enum
import types
import typing
import uuid
from collections import abc
from dataclasses import dataclass, field
from typing import Any

from atoll.errors import DeclarationError
from atoll.objects import class_fields
from atoll.ranked import ranked_text, ranks_of

__all__ = [
    "List",
    "Map",
    "Node",
    "Scalar",
    "Set",
    "Struct",
    "as_node",
    "from_json",
    "to_json",
    "to_text",
]

KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    dt.date: "date",
    dt.datetime: "datetime",
    decimal.Decimal: "decimal",
}
"""The scalar types of Python that a schema may name, and the word kept for each.

``int`` as a *value* is 64 bits wide (as Spark's ``long``); as a *key* it is unbounded.
``datetime`` is an instant: aware, kept in UTC with microseconds (as Spark's ``timestamp``).
"""

_PYTHON_TYPES = {kind: python_type for python_type, kind in KINDS.items()}


@dataclass(frozen=True, slots=True, repr=False)
class Scalar:
    """One value of a simple type; ``items`` are the members when the kind is ``tuple``."""

    kind: str
    optional: bool = False
    items: tuple[Scalar, ...] = ()

    def __repr__(self) -> str:
        """As declared: ``int``, ``str | None``, ``tuple[int, str]``."""
        return to_text(self)

    @property
    def leaf(self) -> bool:
        """Scalars are always one value."""
        return True


@dataclass(frozen=True, slots=True, repr=False)
class List:
    """A list of values, read and written whole: ``List(int)``, ``List(Struct(...))``."""

    item: Any

    def __post_init__(self) -> None:
        """Resolve the item's shorthand."""
        object.__setattr__(self, "item", as_node(self.item))

    def __repr__(self) -> str:
        """As declared: ``List(int)``."""
        return to_text(self)

    @property
    def leaf(self) -> bool:
        """Lists are always one value, with everything inside them."""
        return True


@dataclass(frozen=True, slots=True, repr=False)
class Map:
    """A sorted map, stored element by element: ``Map(str, Map(str, int))``.

    ``ranked`` keeps its entries in an order of their values as well, whatever becomes of them:
    ``Map(str, float, ranked="-value")``, ``Map(int, Struct(...), ranked=["-price", "at"])``.
    """

    key: Any
    value: Any
    ranked: Any = ()

    def __post_init__(self) -> None:
        """Resolve the shorthands; a key must be a scalar."""
        object.__setattr__(self, "key", _as_key(self.key, "a Map's key"))
        object.__setattr__(self, "value", as_node(self.value))
        object.__setattr__(self, "ranked", ranks_of(self.ranked, self))

    def __repr__(self) -> str:
        """As declared: ``Map(str, int)``."""
        return to_text(self)

    @property
    def leaf(self) -> bool:
        """Maps are element-wise."""
        return False


@dataclass(frozen=True, slots=True, repr=False)
class Set:
    """A sorted set, stored element by element: ``Set(str)``.

    ``Set(int, ranked=True)`` knows the rank of each element, and the element of each rank.
    """

    item: Any
    ranked: Any = ()

    def __post_init__(self) -> None:
        """Resolve the shorthand; an element must be a scalar."""
        object.__setattr__(self, "item", _as_key(self.item, "a Set's element"))
        object.__setattr__(self, "ranked", ranks_of(self.ranked, self))

    def __repr__(self) -> str:
        """As declared: ``Set(str)``."""
        return to_text(self)

    @property
    def leaf(self) -> bool:
        """Sets are element-wise."""
        return False


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Struct:
    """A record with fixed field names: ``Struct(name=str, tags=Set(str))``.

    One value when every field is a leaf; stored field by field when one is not.
    """

    fields: tuple[tuple[str, Node], ...] = field(default=())

    def __init__(self, **fields: Any) -> None:
        if not fields:
            raise DeclarationError(
                "a Struct needs at least one field", hint="name them: Struct(total=int)"
            )
        nodes = tuple((name, as_node(value)) for name, value in fields.items())
        object.__setattr__(self, "fields", nodes)

    def __repr__(self) -> str:
        """As declared: ``Struct(n=int)``."""
        return to_text(self)

    @property
    def leaf(self) -> bool:
        """One value unless a field is element-wise."""
        return all(node.leaf for _, node in self.fields)

    def names(self) -> tuple[str, ...]:
        """The field names in the order declared."""
        return tuple(name for name, _ in self.fields)

    def get(self, name: str) -> Node | None:
        """The node of the field of that name, or None."""
        return dict(self.fields).get(name)


Node = Scalar | List | Map | Set | Struct


def as_node(declared: Any) -> Node:
    """The node for what a user wrote: a node, a Python type, ``X | None`` or ``tuple[...]``.

    Raises:
        DeclarationError: When the type is none that a PState can hold.
    """
    if isinstance(declared, Scalar | List | Map | Set | Struct):
        return declared
    found = _of_python(declared)
    if found is not None:
        return found
    plain = typing.get_origin(declared) is None
    name = getattr(declared, "__name__", repr(declared)) if plain else str(declared)
    raise DeclarationError(f"{name} is no type that a PState can hold", hint=_instead(declared))


def _of_python(declared: Any) -> Node | None:
    """The node for a type of Python's, of the standard library or of a user; None for others."""
    if isinstance(declared, type) and declared in KINDS:
        return Scalar(KINDS[declared])
    if declared is uuid.UUID:
        return Scalar("str")
    if isinstance(declared, typing.NewType):
        return as_node(declared.__supertype__)
    if isinstance(declared, type) and issubclass(declared, enum.StrEnum | enum.IntEnum):
        return Scalar("str" if issubclass(declared, str) else "int")
    if typing.get_origin(declared) is None:
        return _of_class(declared)
    return _of_generic(declared)


def _of_generic(declared: Any) -> Node | None:
    """The node for ``list[int]``, ``dict[str, int]``, ``int | None`` and their like."""
    members = typing.get_args(declared)
    match typing.get_origin(declared):
        case typing.Union | types.UnionType:
            return _optional(declared)
        case typing.Annotated | typing.Required | typing.NotRequired:
            return as_node(members[0])
        case typing.Literal:
            return _of_members(declared, {type(each) for each in members})
        case builtins.tuple if members and Ellipsis not in members:
            return Scalar("tuple", items=tuple(_as_key(item, "a tuple") for item in members))
        case builtins.list | abc.Sequence:
            return List(members[0])
        case builtins.dict | abc.Mapping | abc.MutableMapping:
            return Map(*members)
        case builtins.set | builtins.frozenset | abc.Set:
            return Set(members[0])
    return None


def _of_members(declared: Any, kinds: set[type]) -> Node:
    if len(kinds) == 1 and kinds <= {str, int}:
        return as_node(kinds.pop())
    raise DeclarationError(
        f"{declared} is no type that a PState can hold",
        hint="write a Literal of texts only, or of ints only",
    )


def _of_class(declared: Any) -> Node | None:
    """A struct of a class's fields; None when it has none."""
    fields = class_fields(declared)
    if fields is None:
        return None
    if declared in _reading:
        raise DeclarationError(
            f"{declared.__name__} holds itself",
            hint="keep what lies below in a map of its own, by an id",
        )
    _reading.append(declared)
    try:
        return Struct(**fields)
    finally:
        _reading.pop()


_reading: list[Any] = []
"""The classes that are being taken apart, outermost first."""


def _instead(declared: Any) -> str:
    """What to write in place of a type of Python's that a PState does not hold."""
    if declared in (list, dict, set, frozenset):
        return f"say what it holds: {_EXAMPLES[declared]}"
    return (
        "use a class with fields, list[...], dict[...], set[...], tuple[...], X | None, UUID, "
        "or one of " + ", ".join(python_type.__name__ for python_type in KINDS)
    )


_EXAMPLES = {
    list: "list[int]",
    dict: "dict[str, int]",
    set: "set[str]",
    frozenset: "frozenset[str]",
}


def _optional(declared: Any) -> Node:
    members = [member for member in typing.get_args(declared) if member is not type(None)]
    if len(members) == 1 and len(typing.get_args(declared)) > 1:
        node = as_node(members[0])
        if isinstance(node, Scalar):
            return Scalar(node.kind, optional=True, items=node.items)
        return node  # an absent collection and an empty one are the same
    raise DeclarationError(
        f"{declared} is a union of several types", hint="a PState holds X or X | None"
    )


def _as_key(declared: Any, place: str) -> Scalar:
    node = as_node(declared)
    if not isinstance(node, Scalar):
        raise DeclarationError(
            f"{place} must be a scalar, not {type(node).__name__}",
            hint="use str, int, float, bool, bytes, date, datetime, Decimal or a tuple of these",
        )
    return node


def to_json(node: Node) -> Any:
    """The schema as plain data, for the deployment object; :func:`from_json` reads it."""
    match node:
        case Scalar("tuple", optional, items):
            return {"tuple": [to_json(item) for item in items], "optional": optional}
        case Scalar(kind, optional):
            return f"{kind}?" if optional else kind
        case List(item):
            return {"list": to_json(item)}
        case Map(key, value, ranked):
            return {"map": [to_json(key), to_json(value)], **_ranked_json(ranked)}
        case Set(item, ranked):
            return {"set": to_json(item), **_ranked_json(ranked)}
        case Struct():
            return {"struct": [[name, to_json(value)] for name, value in node.fields]}


def _ranked_json(ranked: tuple[str, ...]) -> dict[str, list[str]]:
    return {"ranked": list(ranked)} if ranked else {}


def to_text(node: Node) -> str:
    """The schema as users write it: ``Map(str, Struct(n=int, at=datetime | None))``.

    Deployments keep such texts and compare them with those of later versions: what was once
    written of a schema must not change.
    """
    match node:
        case Scalar(kind, optional, items):
            known = _PYTHON_TYPES.get(kind)
            name = kind if known is None else known.__name__
            if kind == "tuple":
                name = f"tuple[{', '.join(map(to_text, items))}]"
            return f"{name} | None" if optional else name
        case List(item):
            return f"List({to_text(item)})"
        case Map(key, value, ranked):
            return f"Map({to_text(key)}, {to_text(value)}{ranked_text(ranked)})"
        case Set(item, ranked):
            return f"Set({to_text(item)}{ranked_text(ranked)})"
        case Struct():
            members = (f"{name}={to_text(value)}" for name, value in node.fields)
            return f"Struct({', '.join(members)})"


def from_json(data: Any) -> Node:
    """The node that :func:`to_json` wrote.

    Raises:
        DeclarationError: When the data is no schema.
    """
    match data:
        case str() if data.removesuffix("?") in _PYTHON_TYPES:
            return Scalar(data.removesuffix("?"), optional=data.endswith("?"))
        case {"tuple": items, "optional": optional}:
            members = tuple(_as_key(from_json(item), "a tuple") for item in items)
            return Scalar("tuple", optional=bool(optional), items=members)
        case {"list": item}:
            return List(from_json(item))
        case {"map": [key, value]}:
            return Map(from_json(key), from_json(value), data.get("ranked", ()))
        case {"set": item}:
            return Set(from_json(item), data.get("ranked", ()))
        case {"struct": fields}:
            return Struct(**{name: from_json(value) for name, value in fields})
    raise DeclarationError(f"{data!r} is no schema that this version of Atoll knows")
