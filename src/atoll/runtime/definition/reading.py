"""Data from outside held against a Struct: all that does not fit, and where.

``msgspec.convert`` makes the object, but stops at the first misfit. So :func:`misfits` goes over
the same types first, by what ``msgspec.inspect`` tells about them, and collects.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from atoll.runtime.problems import Problem, pointer

T = TypeVar("T")
_SHOWN_MAX = 60


def read(
    data: Any, kind_of_data: type[T], kind: str, hints: Mapping[str, str] | None = None
) -> tuple[T | None, list[Problem]]:
    """The data as an object of the type, or None and what is wrong.

    Args:
        data: As JSON has it; :func:`check_size` found it right.
        kind_of_data: A Struct or another type that msgspec knows.
        kind: Of the problems.
        hints: By the name of a field that is unknown, what its writer probably wants.
    """
    found = list(misfits(data, kind_of_data, kind, hints or {}))
    if found:
        return None, found
    try:
        return msgspec.convert(data, kind_of_data), []
    except (msgspec.ValidationError, OverflowError) as error:
        return None, [Problem(kind, "", str(error).lower(), "see the reference")]


def misfits(data: Any, wanted: Any, kind: str, hints: Mapping[str, str]) -> Iterator[Problem]:
    """Everything in the data that is not as the type wants it."""
    yield from _Check(kind, hints).value(data, _info(wanted), "")


def unknown_fields(
    given: Mapping[str, Any],
    fields: Collection[str],
    what: str,
    kind: str = "unknown-field",
    hints: Mapping[str, str] | None = None,
) -> Iterator[Problem]:
    """The fields of an object that it cannot have.

    Args:
        given: The object.
        fields: Those that it can have.
        what: What the object is, with its article.
        kind: Of the problems.
        hints: By the name of a field, what its writer probably wants.
    """
    for name in given:
        if name not in fields:
            hint = (hints or {}).get(name) or "the fields here are: " + ", ".join(fields)
            yield Problem(kind, pointer(name), f"{what} has no field {shown(name)}", hint)


@lru_cache(maxsize=512)
def _info(wanted: Any) -> inspect.Type:
    return inspect.type_info(wanted)


def shown(value: Any) -> str:
    """A value from outside in a message: short, on one line, nothing that a terminal obeys."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value[: _SHOWN_MAX + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


class _Check:
    """Walks data and type side by side."""

    def __init__(self, kind: str, hints: Mapping[str, str]) -> None:
        self._kind = kind
        self._hints = hints

    def value(self, data: Any, wanted: inspect.Type, path: str) -> Iterator[Problem]:
        """What is wrong with one value."""
        match wanted:
            case inspect.Metadata(type=inner):
                yield from self.value(data, inner, path)
            case inspect.AnyType():
                pass
            case inspect.UnionType():
                yield from self._union(data, wanted, path)
            case inspect.StructType() if isinstance(data, dict):
                yield from self._struct(data, wanted, path)
            case inspect.ListType() | inspect.VarTupleType() if isinstance(data, list):
                yield from self._items(data, wanted, path)
            case inspect.DictType() if isinstance(data, dict):
                yield from self._entries(data, wanted, path)
            case _ if not _fits(data, wanted):
                yield self._misfit(data, wanted, path)

    def _misfit(self, data: Any, wanted: inspect.Type, path: str) -> Problem:
        words = in_words(wanted)
        return Problem(
            self._kind, path, f"it should be {words}, and is {shown(data)}", f"give {words}"
        )

    def _struct(
        self, data: dict[str, Any], wanted: inspect.StructType, path: str
    ) -> Iterator[Problem]:
        fields = {field.encode_name: field for field in wanted.fields}
        for name in data:
            if name not in fields:
                yield self._unknown(name, fields, path)
        for name, field in fields.items():
            if name in data:
                yield from self.value(data[name], field.type, path + pointer(name))
            elif field.required:
                what = f"{name!r} is missing"
                yield Problem(self._kind, path, what, f"give {name!r}: {in_words(field.type)}")

    def _unknown(self, name: str, fields: Mapping[str, Any], path: str) -> Problem:
        near = difflib.get_close_matches(name, fields, 1)
        usual = f"write {near[0]!r}" if near else "leave it out"
        known = ", ".join(fields) or "none"
        hint = self._hints.get(name) or f"{usual}; the fields here are: {known}"
        return Problem(self._kind, path + pointer(name), f"there is no field {shown(name)}", hint)

    def _items(
        self, data: list[Any], wanted: inspect.ListType | inspect.VarTupleType, path: str
    ) -> Iterator[Problem]:
        if not _length_fits(len(data), wanted):
            yield self._misfit(data, wanted, path)
        for at, item in enumerate(data):
            yield from self.value(item, wanted.item_type, path + pointer(at))

    def _entries(
        self, data: dict[str, Any], wanted: inspect.DictType, path: str
    ) -> Iterator[Problem]:
        if not _length_fits(len(data), wanted):
            yield self._misfit(data, wanted, path)
        for name, value in data.items():
            yield from self.value(value, wanted.value_type, path + pointer(name))

    def _union(self, data: Any, wanted: inspect.UnionType, path: str) -> Iterator[Problem]:
        """The misfits of the member that the data most resembles."""
        by_member = [list(self.value(data, member, path)) for member in wanted.types]
        if not all(by_member):
            return
        inner = [each for each in by_member if any(p.path != path for p in each)]
        if len(inner) == 1:
            yield from inner[0]
        else:
            yield self._misfit(data, wanted, path)


def _fits(data: Any, wanted: inspect.Type) -> bool:
    match wanted:
        case inspect.NoneType():
            return data is None
        case inspect.BoolType():
            return isinstance(data, bool)
        case inspect.IntType():
            return type(data) is int and _in_bounds(data, wanted)
        case inspect.FloatType():
            return type(data) in {int, float} and _in_bounds(data, wanted)
        case inspect.StrType():
            return isinstance(data, str) and _text_fits(data, wanted)
        case inspect.LiteralType():
            return type(data) in {str, int} and data in wanted.values
    return False


def _in_bounds(number: float, wanted: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (wanted.ge is None or number >= wanted.ge)
        and (wanted.gt is None or number > wanted.gt)
        and (wanted.le is None or number <= wanted.le)
        and (wanted.lt is None or number < wanted.lt)
    )


def _text_fits(text: str, wanted: inspect.StrType) -> bool:
    matches = wanted.pattern is None or re.search(wanted.pattern, text) is not None
    return matches and _length_fits(len(text), wanted)


def _length_fits(length: int, wanted: Any) -> bool:
    return (wanted.min_length or 0) <= length and (
        wanted.max_length is None or length <= wanted.max_length
    )


def in_words(wanted: inspect.Type) -> str:
    """What the type wants, for a sentence."""
    match wanted:
        case inspect.Metadata(type=inner):
            return in_words(inner)
        case inspect.UnionType(types=types):
            return " or ".join(map(in_words, types))
        case inspect.LiteralType(values=values):
            return ("one of " if len(values) > 1 else "") + ", ".join(map(repr, values))
        case inspect.IntType() | inspect.FloatType():
            noun = "a whole number" if isinstance(wanted, inspect.IntType) else "a number"
            return noun + _bounds_in_words(wanted)
        case inspect.StrType():
            return _text_in_words(wanted)
        case inspect.NoneType():
            return "null"
        case inspect.BoolType():
            return "true or false"
        case inspect.ListType() | inspect.VarTupleType():
            return "an array" + _length_in_words(wanted, "entry", "entries")
        case inspect.StructType() | inspect.DictType():
            return "an object" + _length_in_words(wanted, "name", "names")
    return "something else"


def _bounds_in_words(wanted: inspect.IntType | inspect.FloatType) -> str:
    if wanted.ge is not None and wanted.le is not None:
        return f" from {wanted.ge:.15g} to {wanted.le:.15g}"
    bounds = (("at least", wanted.ge), ("above", wanted.gt), ("at most", wanted.le))
    told = [f"{words} {bound:.15g}" for words, bound in bounds if bound is not None]
    if wanted.lt is not None:
        told.append(f"below {wanted.lt:.15g}")
    return " of " + " and ".join(told) if told else ""


def _text_in_words(wanted: inspect.StrType) -> str:
    if wanted.pattern:
        return f"a text that matches {wanted.pattern}"
    return "a text" + _length_in_words(wanted, "character", "characters")


def _length_in_words(wanted: Any, one: str, many: str) -> str:
    least = getattr(wanted, "min_length", None)
    most = getattr(wanted, "max_length", None)
    if least and most is not None:
        return f" of {least} to {most} {many}"
    if least:
        return f" of at least {least} {one if least == 1 else many}"
    return "" if most is None else f" of at most {most} {one if most == 1 else many}"
