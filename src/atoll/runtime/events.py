"""Reading values out of events: what counts as a number, a text, a field.

An event is a JSON object from outside. A field that is null counts as missing, true and false are
no numbers, and a number that is not finite is none either.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["number_of", "text_of"]


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
