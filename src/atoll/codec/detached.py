"""Copies of values that share nothing with anybody: what a function hands over at one moment."""

from __future__ import annotations

import copy
import datetime as dt
from decimal import Decimal
from typing import Any

_UNCHANGING = (bool, int, float, str, bytes, dt.date, Decimal, type(None))


def can_change(value: object) -> bool:
    """Whether a value, or something in it, may be changed in place."""
    if isinstance(value, tuple | frozenset):
        return any(map(can_change, value))
    return not isinstance(value, _UNCHANGING)


def detached(value: Any) -> Any:
    """The value as it is now, whatever happens to it later; handles as dicts and sets."""
    if not can_change(value):
        return value
    kind = type(value)
    if kind is dict:
        return {key: detached(item) for key, item in value.items()}
    if kind is list:
        return [detached(item) for item in value]
    return copy.deepcopy(value)
