"""Checks a path against a schema, and turns what it carries into values of the schema's types.

Everything that can be wrong about a path without looking at the data is found here, before the
first read: keys of the wrong type, fields that do not exist, steps that a value does not have.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from atoll.codec.keys import encode_element
from atoll.errors import PathError, StateError
from atoll.path import Path, Step
from atoll.schema import List, Map, Node, Scalar, Set, Struct

__all__ = ["fit_path"]


@dataclass(frozen=True, slots=True)
class _Pair:
    """What ``all()`` gives for a map: a key and a value."""

    first: _Shape
    last: _Shape


_Shape = Node | _Pair | None
"""What a step navigates to; None where the schema does not say (after a function, or ``or``)."""


def fit_path(path: Path, node: Node) -> Path:
    """The same path, its keys and values of the schema's types.

    Raises:
        PathError: When the path does not fit the schema.
    """
    fitted, _ = _fit(path, node, path.from_outside)
    return fitted


def _fit(path: Path, shape: _Shape, outside: bool) -> tuple[Path, _Shape]:  # noqa: FBT001
    steps = []
    for number, step in enumerate(path.steps):
        try:
            fitted, shape = _STEPS[step.name](step, shape, outside)
        except (PathError, StateError) as error:
            context = {name: error.context[name] for name in ("step",) if name in error.context}
            raise PathError(
                f"{step} does not fit the schema: {error.message}",
                hint=error.hint,
                **{"step": number, **context},
            ) from None
        steps.append(fitted)
    return Path(tuple(steps)), shape


def _fit_key(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: FBT001
    (key,) = step.arguments
    match shape:
        case Map():
            return Step(step.name, (_fit_value(key, shape.key, outside),)), shape.value
        case Struct():
            member = shape.get(key) if isinstance(key, str) else None
            if member is None:
                raise PathError(
                    f"the struct has no field {key!r}",
                    hint=f"its fields are {', '.join(shape.names())}",
                )
            return step, member
        case None:
            return step, None
    raise PathError(f"{_word(shape)} has no keys", hint="leave the step out, or see the schema")


def _fit_all(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: ARG001, FBT001
    match shape:
        case Map():
            return step, _Pair(shape.key, shape.value)
        case Set() | List():
            return step, shape.item
        case Struct():
            raise PathError("a struct has fields, not entries", hint="use field(name)")
        case _Pair() if step.name in {"first", "last"}:
            return step, shape.first if step.name == "first" else shape.last
        case None | _Pair():
            return step, None
    raise PathError(f"{_word(shape)} has no elements", hint="leave the step out")


def _fit_map(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: ARG001, FBT001
    match shape:
        case Map():
            return step, shape.key if step.name == "keys" else shape.value
        case None:
            return step, None
    raise PathError(f"{_word(shape)} is no map", hint="use all() for every element")


def _fit_size(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: ARG001, FBT001
    if isinstance(shape, Scalar | Struct):
        raise PathError(f"{_word(shape)} has no size", hint="leave the step out")
    return step, Scalar("int")


def _fit_range(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: FBT001
    start, end, limit, from_end = step.arguments
    match shape:
        case Map() | Set():
            kind = shape.key if isinstance(shape, Map) else shape.item
            low = None if start is None else _fit_value(start, kind, outside)
            high = None if end is None else _fit_value(end, kind, outside)
            result = shape if isinstance(shape, Map) else List(kind)
            return Step(step.name, (low, high, limit, from_end)), result
        case None:
            return step, None
    raise PathError(
        f"{_word(shape)} is not sorted by key", hint="ranges are parts of maps and sets"
    )


def _fit_filter(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: FBT001
    if len(step.arguments) == 1 or not isinstance(shape, Scalar):
        return step, shape
    comparison, value = step.arguments
    return Step("filter", (comparison, _fit_operand(value, shape, outside))), shape


def _fit_null(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: FBT001
    if isinstance(shape, Scalar):
        return Step("null_to", (_fit_operand(step.arguments[0], shape, outside),)), shape
    return step, shape


def _fit_several(step: Step, shape: _Shape, outside: bool) -> tuple[Step, _Shape]:  # noqa: FBT001
    fitted, shapes = [], []
    for each in step.arguments:
        path, end = _fit(each, shape, outside or each.from_outside)
        fitted.append(path)
        shapes.append(end)
    same = bool(shapes) and all(each == shapes[0] for each in shapes)
    return Step("multi_path", tuple(fitted)), shapes[0] if same else None


_STEPS: dict[str, Callable[[Step, _Shape, bool], tuple[Step, _Shape]]] = {
    "key": _fit_key,
    "must": _fit_key,
    "field": _fit_key,
    "all": _fit_all,
    "first": _fit_all,
    "last": _fit_all,
    "keys": _fit_map,
    "map_vals": _fit_map,
    "size": _fit_size,
    "sorted_range": _fit_range,
    "filter": _fit_filter,
    "null_to": _fit_null,
    "multi_path": _fit_several,
}


def _fit_value(value: Any, scalar: Scalar, outside: bool) -> Any:  # noqa: FBT001
    """The value in the scalar's type; StateError when it does not fit."""
    typed = _from_outside(value, scalar) if outside else value
    encode_element(typed, scalar)
    return typed


def _fit_operand(value: Any, scalar: Scalar, outside: bool) -> Any:  # noqa: FBT001
    """As _fit_value, but None may stand anywhere and an int may compare with a float."""
    if value is None:
        return None
    if scalar.kind == "int" and isinstance(value, float):
        return value
    return _fit_value(value, scalar, outside)


def _from_outside(value: Any, scalar: Scalar) -> Any:
    """What a JSON value stands for where the schema has this scalar."""
    if scalar.kind == "tuple" and isinstance(value, list) and len(value) == len(scalar.items):
        members = zip(value, scalar.items, strict=True)
        return tuple(_from_outside(member, item) for member, item in members)
    read = _READERS.get(scalar.kind)
    if read is None or not isinstance(value, str):
        return value
    try:
        return read(value)
    except (ValueError, binascii.Error, decimal.InvalidOperation):
        raise PathError(
            f"{value!r} is no {scalar.kind}", hint=f"write it like {_EXAMPLES[scalar.kind]!r}"
        ) from None


def _read_datetime(text: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_READERS: dict[str, Callable[[str], Any]] = {
    "date": dt.date.fromisoformat,
    "datetime": _read_datetime,
    "decimal": decimal.Decimal,
    "bytes": _read_bytes,
    "float": float,
}
_EXAMPLES = {
    "date": "2024-02-29",
    "datetime": "2024-02-29T12:00:00Z",
    "decimal": "12.50",
    "bytes": "base64: AAE=",
    "float": "NaN",
}


def _word(shape: _Shape) -> str:
    match shape:
        case Scalar(kind):
            return f"a value of type {kind}"
        case _Pair():
            return "a pair of key and value"
        case None:
            return "this"
    return f"a {type(shape).__name__.lower()}"
