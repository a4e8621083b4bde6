"""Events and the values in them: what is one, what counts as a number, a text, a field.

An event is a JSON object from outside. A field that is null counts as missing, true and false are
no numbers, and a number that is not finite is none either.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import msgspec

from atoll.runtime.limits import check_size, parse_json

FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
"""The name of a field of events, in params."""


def compact(event: Any) -> str:
    """The event as JSON on one line, without spaces."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def event_of(text: bytes | str) -> dict[str, Any] | None:
    """The event that a JSON text holds, or None when it is no object that can be taken."""
    data, problems = parse_json(text)
    if problems or not isinstance(data, dict) or next(check_size(data), None):
        return None
    return data


def number_of(value: Any) -> int | float | None:
    """The value when it is a finite number, else None."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        number: int | float = value
        return number
    return None


def text_of(value: Any) -> str | None:
    """The value as a text that names something, or None.

    A text is itself, a whole number its digits, a truth ``true`` or ``false``: what JSON would
    write. Other numbers, lists and objects name nothing.
    """
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) is int else None
