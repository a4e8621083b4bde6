"""Spark SQL expressions as text: names found and quoted, lists of projections built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_QUOTED = re.compile(r"`[^`]+`\Z")
_NAMED = re.compile(
    r"(?P<text>.+)\s+AS\s+(?P<name>`[^`]+`|[A-Za-z_][A-Za-z_0-9]*)\s*\Z", re.IGNORECASE | re.DOTALL
)
_WORDS = frozenset({"true", "false", "null", "current_date", "current_timestamp", "current_user"})


_COMPUTED = re.compile(r"__e\d+\Z")
_STAR = re.compile(r"(?:^|[(,]|\bdistinct\b)\s*\*", re.IGNORECASE)
"""A star that means all columns; at worst it is found in a text."""


def has_star(expression: str) -> bool:
    """Whether an expression may mean all columns, whatever they are."""
    return _STAR.search(expression) is not None


def bare_column(expression: str) -> str | None:
    """The column's name when an expression is no more than one, else None."""
    text = expression.strip()
    if _QUOTED.match(text):
        return text[1:-1]
    if _IDENTIFIER.match(text) and text.lower() not in _WORDS:
        return text
    return None


def is_computed(column: str) -> bool:
    """Whether a column was made for a step's expression, so that no user knows its name."""
    return _COMPUTED.match(column) is not None


def shown_as(name: str, text: str) -> str:
    """An expression of ``with_columns`` as its user knows it."""
    return text if is_computed(name) else f"{name} = {text}"


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


def named(expression: str) -> tuple[str, str]:
    """An expression and the name of its column: what follows ``AS``, else its own text."""
    found = _NAMED.match(expression)
    if found is not None:
        return found["text"].strip(), found["name"].strip("`")
    return expression.strip(), bare_column(expression) or expression.strip()


def escaped(text: str) -> str:
    """A part of an SQL query as :func:`query` takes it literally."""
    return text.replace("{", "{{").replace("}", "}}")


def query(columns: Iterable[str], source: str, rest: str = "", **frames: Any) -> Any:
    """The DataFrame of an SQL query over frames, which stand in ``source`` as ``{name}``.

    An operator is built this way where Spark's methods take columns, which only Spark can make,
    instead of expressions.
    """
    session = next(iter(frames.values())).sparkSession
    text = " ".join(("SELECT", escaped(", ".join(columns)), "FROM", source))
    return session.sql(text + rest, **frames)
