"""The helpers that Spark's column steps share: names quoted, lists of projections built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["bare_column", "quoted", "with_replaced"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_QUOTED = re.compile(r"`[^`]+`\Z")
_WORDS = frozenset({"true", "false", "null", "current_date", "current_timestamp", "current_user"})


def bare_column(expression: str) -> str | None:
    """The column's name when an expression is no more than one, else None."""
    text = expression.strip()
    if _QUOTED.match(text):
        return text[1:-1]
    if _IDENTIFIER.match(text) and text.lower() not in _WORDS:
        return text
    return None


def quoted(name: str) -> str:
    """A column's name as Spark SQL reads it literally."""
    return "`" + name.replace("`", "``") + "`"


def with_replaced(columns: Iterable[str], expressions: Mapping[str, str]) -> list[str]:
    """Projections that keep ``columns``, replace those of the same name and add the rest."""
    rest = dict(expressions)
    kept = [
        f"{rest.pop(name)} AS {quoted(name)}" if name in rest else quoted(name) for name in columns
    ]
    return kept + [f"{expression} AS {quoted(name)}" for name, expression in rest.items()]
