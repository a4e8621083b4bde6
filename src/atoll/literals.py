"""Values as the text of expressions: ``lit("all")`` where a value is meant, not a column."""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
import uuid
from decimal import Decimal
from typing import Any

from atoll.errors import DeclarationError

Literal = bool | int | float | Decimal | dt.date | dt.datetime
"""What may stand for itself where an expression is asked for; a text is an expression."""

_INT_BITS = 63
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)


def lit(value: Any) -> str:
    """The expression whose value is this one: ``lit("all")``, ``lit(7)``, ``lit(None)``.

    It may stand wherever an expression may, and in the text of a longer one:
    ``counts[lit("all")]``, ``with_columns(kind=lit("x"))``.

    Raises:
        DeclarationError: When no expression can say it.
    """
    if isinstance(value, enum.Enum):
        return lit(value.value)
    if isinstance(value, str | uuid.UUID):
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    found = _of_number(value) if isinstance(value, int | float | Decimal) else _of_other(value)
    if found is None:
        raise DeclarationError(
            f"{value!r} cannot stand in an expression",
            hint="give a text, a number of up to 64 bits, a bool, a date, an aware datetime, a "
            "Decimal, bytes, a UUID or None",
        )
    return found


def _of_number(value: float | Decimal) -> str | None:
    if isinstance(value, int):
        return str(int(value)) if value.bit_length() <= _INT_BITS else None
    if isinstance(value, Decimal):
        return f"{value:f}BD" if value.is_finite() else None
    return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"


def _of_other(value: Any) -> str | None:
    if isinstance(value, dt.datetime):
        aware = value.utcoffset() is not None
        return f"TIMESTAMP'{value.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}Z'" if aware else None
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else None


def expression(given: Any) -> str:
    """The text of an expression: as it is, or of a value that stands for itself.

    Raises:
        DeclarationError: When it is neither.
    """
    if isinstance(given, str) and not isinstance(given, enum.Enum):
        return given
    return lit(given)


def shown(text: str) -> str:
    """An expression as users write it in brackets: ``"k"``, or ``lit('all')`` for a text."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return f'"{text}"'
    value = _ESCAPE.sub(r"\1", found[1])
    return f"lit({value!r})"
