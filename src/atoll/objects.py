"""Objects of the classes that users declare records and values with, and the plain data they are.

A dataclass, a ``TypedDict``, a ``NamedTuple``, a ``msgspec.Struct`` or a pydantic model says by its
fields what a record or a struct holds. Its objects go in wherever a dict of the fields may, and
what comes out becomes one where the class is asked for.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from atoll.errors import DeclarationError, StateError

_T = TypeVar("_T")

_SIMPLE = frozenset({bool, int, float, str, bytes, type(None), dt.datetime, dt.date, Decimal})
_NATIVE = (bytes, bytearray, dt.datetime, dt.date, Decimal)
"""What is a value as it is, beside numbers, texts and collections."""


def class_fields(declared: object) -> dict[str, Any] | None:
    """The fields of a class and their types, in order; None when it is no class with fields.

    Raises:
        DeclarationError: When a type is not known where the class was written.
    """
    if not isinstance(declared, type):
        return None
    try:
        if typing.is_typeddict(declared):
            return typing.get_type_hints(declared, include_extras=True)
        names = _names(declared)
        if names is None:
            return None
        hints = typing.get_type_hints(declared, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"a type of {declared.__name__} is not known: {error}",
            hint="declare the class and what it names at the top of a file",
        ) from None
    return {name: hints[name] for name in names}


def _names(declared: type) -> list[str] | None:
    """The names of a class's fields, in order; of a TypedDict they are not known here."""
    if dataclasses.is_dataclass(declared):
        return [each.name for each in dataclasses.fields(declared) if each.init]
    if issubclass(declared, tuple):
        found = getattr(declared, "_fields", None)
        return None if found is None else list(found)
    if issubclass(declared, msgspec.Struct):
        return list(declared.__struct_fields__)
    if _is_pydantic(declared):
        return list(declared.model_fields)  # type: ignore[attr-defined]  # of pydantic's classes
    return None


def _is_pydantic(kind: type) -> bool:
    return hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def is_object(value: object) -> bool:
    """Whether a value is an object of a class with fields; a dict is not."""
    kind: Any = type(value)
    return not isinstance(value, Mapping) and _has_fields(kind)


@functools.lru_cache(maxsize=1024)
def _has_fields(kind: Any) -> bool:
    return _names(kind) is not None


def as_row(value: Any) -> Any:
    """The object as a dict of its fields, all of it plain; anything else as it is."""
    return plain(value) if is_object(value) else value


def plain(value: Any) -> Any:
    """The value with its objects as dicts, sets as lists, UUIDs as text and members as values.

    A value of another kind stays what it is: whoever takes it in says what is wrong with it.
    """
    if type(value) in _SIMPLE:
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    names = _names(type(value))
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, set | frozenset):
        return _in_order(map(plain, value))
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return str(value) if isinstance(value, uuid.UUID) else value


def _in_order(elements: Iterable[Any]) -> list[Any]:
    """The elements of a set in an order that every attempt repeats."""
    found = list(elements)
    try:
        return sorted(found)
    except TypeError:
        return sorted(found, key=repr)


def build(kind: type[_T], values: Any) -> _T:
    """The object of a class that plain values stand for.

    Raises:
        StateError: When they do not fit the class.
    """
    wanted: Any = kind
    made: _T = builder(wanted)(values)
    return made


@functools.lru_cache(maxsize=256)
def builder(kind: Any) -> Callable[[Any], Any]:
    """What makes objects of a class, or values of another type, from plain ones."""
    arrange = _arranger(kind)

    def make(values: Any) -> Any:
        try:
            given = values if arrange is None else arrange(values)
            return msgspec.convert(given, kind, builtin_types=_NATIVE, dec_hook=_model)
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(
                f"the values are no {getattr(kind, '__name__', kind)}: {error}",
                hint="give a class whose fields are those of the schema",
            ) from error

    return make


def _arranger(kind: Any) -> Callable[[Any], Any] | None:
    """What makes tuples of the dicts that stand for named tuples; None where there are none."""
    fields = class_fields(kind)
    if fields is not None:
        inner = {name: found for name, each in fields.items() if (found := _arranger(each))}
        named = issubclass(kind, tuple)
        if not inner and not named:
            return None
        names = tuple(fields)

        def arrange(values: Any) -> Any:
            if not isinstance(values, Mapping):
                return values
            made = {name: inner[name](v) if name in inner else v for name, v in values.items()}
            return tuple(made.get(name) for name in names) if named else made

        return arrange
    members = [_arranger(each) for each in typing.get_args(kind)]
    if not any(members):
        return None
    if typing.get_origin(kind) in {dict, Mapping}:
        key, value = (each or _same for each in members)
        return lambda given: {key(name): value(item) for name, item in given.items()}
    if typing.get_origin(kind) in {list, set, frozenset}:
        (item,) = (each or _same for each in members)
        return lambda given: [item(each) for each in given]
    (item,) = (each for each in members if each is not None)  # X | None, Annotated[X, ...]
    return lambda given: None if given is None else item(given)


def _model(kind: Any, values: Any) -> Any:
    """An object of a class that msgspec does not know: one of pydantic's."""
    if not _is_pydantic(kind):
        raise TypeError(f"{kind} is no class with fields")
    return kind.model_validate(values)


def _same(value: Any) -> Any:
    return value
