"""State values as JSON, the same everywhere: answers, problems and the command line.

JSON knows fewer types than a PState. The rendering loses no value, but a reader needs the PState's
schema (``GET .../pstates/{name}``) to turn texts back into types:

===================  =================================================================
value                JSON
===================  =================================================================
None, bool, str      ``null``, ``true``/``false``, string
int                  number, of any size
float                number; ``"NaN"``, ``"Infinity"``, ``"-Infinity"`` as strings
Decimal              string, ``"12.50"``
date                 string, ``"2024-02-29"``
datetime             string in UTC, ``"2024-02-29T12:00:00.000001Z"``
bytes                string, base64
tuple, list          array
set                  array, sorted as stored
map, struct          object, in the order of the keys
===================  =================================================================

A key of an object that is no string becomes the text of its rendering: ``1`` is ``"1"``, a tuple
is its JSON array as text. A map that holds the key None, or two keys of the same text, is an array
of ``[key, value]`` pairs instead.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any


def render_json(value: Any) -> bytes:
    """The value as JSON text in UTF-8."""
    return json.dumps(
        render(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode("utf-8", "surrogatepass")


def render(value: Any) -> Any:
    """The value with nothing in it but what JSON has."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [render(item) for item in value]
    return _scalar(value)


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _scalar(value: Any) -> Any:
    match value:
        case dt.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(dt.UTC)
            return value.replace(tzinfo=None).isoformat() + "Z"
        case dt.date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case decimal.Decimal() | PurePath():
            return str(value)
    # Numbers of numpy, and views that handles return for maps and sets.
    if hasattr(value, "item") and callable(value.item):
        return render(value.item())
    return str(value)


def _mapping(value: Mapping[Any, Any]) -> Any:
    keys = [_key_text(key) for key in value]
    if None in value or len(set(keys)) < len(keys):
        return [[render(key), render(item)] for key, item in value.items()]
    return {key: render(item) for key, item in zip(keys, value.values(), strict=True)}


def _key_text(key: Any) -> str:
    rendered = render(key)
    if isinstance(rendered, str):
        return rendered
    return json.dumps(rendered, ensure_ascii=False, separators=(",", ":"))
