"""Checks single values that a path carries, and gives them the schema's types."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

from atoll.codec.keys.elements import encode_element
from atoll.errors import PathError
from atoll.schema import Scalar


def fit_value(value: Any, scalar: Scalar, outside: bool) -> Any:  # noqa: FBT001
    """The value in the scalar's type; StateError when it does not fit."""
    typed = _from_outside(value, scalar) if outside else value
    encode_element(typed, scalar)
    return typed


def fit_operand(value: Any, scalar: Scalar, outside: bool) -> Any:  # noqa: FBT001
    """As :func:`fit_value`, but None may stand anywhere and an int may compare with a float."""
    if value is None:
        return None
    if scalar.kind == "int" and isinstance(value, float):
        return value
    return fit_value(value, scalar, outside)


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
            f"{value!r} is no {scalar}", hint=f"write it like {_EXAMPLES[scalar.kind]!r}"
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
