"""Objects of the classes that users declare records and values with, and the plain data they are.

A dataclass, a ``TypedDict``, a ``NamedTuple``, a ``msgspec.Struct`` or a pydantic model says by its
fields what a record or a struct holds. Its objects go in wherever a dict of the fields may, and
what comes out becomes one where the class is asked for.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from atoll.errors import DeclarationError, StateError

_T = TypeVar("_T")

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
    if isinstance(value, tuple) and is_object(value):
        names = _names(type(value)) or ()
        return {name: plain(each) for name, each in zip(names, value, strict=True)}
    try:
        return msgspec.to_builtins(
            value, builtin_types=_NATIVE, order="deterministic", enc_hook=_plain_model
        )
    except (TypeError, NotImplementedError, ValueError, RecursionError):
        return value


def _plain_model(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return {name: getattr(value, name) for name in type(value).model_fields}
    raise NotImplementedError(type(value).__name__)


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

    def make(values: Any) -> Any:
        try:
            if _is_pydantic(kind):
                return kind.model_validate(values)
            return msgspec.convert(values, kind, builtin_types=_NATIVE)
        except (ValueError, TypeError) as error:
            raise StateError(
                f"the values are no {getattr(kind, '__name__', kind)}: {error}",
                hint="give a class whose fields are those of the schema",
            ) from error

    return make
