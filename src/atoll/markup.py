"""HTML for notebooks: small tables without scripts or styles of their own, everything escaped.

Objects that a notebook shows have a method ``_repr_html_`` made with what is here. Text of users
(names, keys, values, messages) reaches the page through :func:`text` and in no other way.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_CHARACTERS_MAX = 200
_ROWS_MAX = 50


def text(value: object) -> str:
    """A value as escaped text: strings as they are, others as Python writes them, both cut short.

    It may stand between tags and within a quoted attribute.
    """
    plain = value if isinstance(value, str) else "" if value is None else repr(value)
    if len(plain) > _CHARACTERS_MAX:
        plain = plain[: _CHARACTERS_MAX - 1] + "…"
    return html.escape(plain, quote=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of values.

    Args:
        columns: The heads.
        rows: The cells; only the first rows are shown, and how many there are.
        caption: What it shows.
    """
    known = list(rows)
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>"
        for row in known[:_ROWS_MAX]
    )
    more = len(known) - _ROWS_MAX
    foot = (
        f'<tr><td colspan="{max(len(columns), 1)}">… and {more:,} more</td></tr>'
        if more > 0
        else ""
    )
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    return (
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        f"<tfoot>{foot}</tfoot></table>"
    )


class Rows(list[Any]):
    """A list of results; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        """One row per element: fields of dicts, pairs of key and value, or the value alone."""
        if self and all(isinstance(each, Mapping) for each in self):
            columns = list(dict.fromkeys(str(name) for each in self for name in each))
            by_name = [{str(name): value for name, value in each.items()} for each in self]
            return table(columns, [[each.get(name) for name in columns] for each in by_name])
        if self and all(isinstance(each, tuple) and len(each) == 2 for each in self):  # noqa: PLR2004
            return table(["key", "value"], self)
        return table(["value"], [[each] for each in self])
