"""Renews the tables of the page that lists what is certified.

``python -m atoll.columns.listing docs/reference/certified-columns.md``
"""

from __future__ import annotations

import sys
from pathlib import Path

from atoll.columns import reading
from atoll.columns.forms import table

_BEGIN = "<!-- What follows is made from the code: "
_END = "<!-- What precedes is made from the code. -->"


def renewed(page: str) -> str:
    """The page with tables of what is certified now."""
    assert reading.FAMILIES, "all forms are known"
    head, begin, rest = page.partition(_BEGIN)
    mark, _, old = rest.partition("\n")
    _, end, foot = old.partition(_END)
    tables = []
    for family, forms in table().items():
        rows = [f"| {_cell(written)} | {_cell(types)} |" for written, types in forms]
        tables.append("\n".join([f"\n## {family}\n", "| written | of |", "|---|---|", *rows, ""]))
    return "".join((head, begin, mark, "\n", *tables, "\n", end, foot))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
