"""Values of columns as JSON has them, for targets that know no other types."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of a column with nothing in it but what JSON has, and no value lost.

    Decimals, dates and times are texts, binary values texts in base64, floats that are no numbers
    ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. A map is an object where its keys are texts,
    else a list of pairs.
    """
    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        items = value.items() if isinstance(value, dict) else value
        pairs = [[plain(k, kind.key_type), plain(v, kind.item_type)] for k, v in items]
        return dict(pairs) if types.is_string(kind.key_type) else pairs
    if types.is_list(kind) or types.is_large_list(kind):
        return [plain(each, kind.value_type) for each in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dt.datetime():
            if value.tzinfo is not None:
                return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
            return value.isoformat()
        case dt.date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return str(value)
    raise TypeError(f"{type(value).__name__} is no value of a column")
