"""Path expressions: where in an event a value lies, ``order.lines[0].price``.

An expression is elements joined by dots. An element is a name, a name with a position
(``lines[0]``, from 0), or a name with a name (``order['price']``, of an object). ``*`` alone is the
whole event. A name that meets an array takes that field of every object in it: one value found is
that value, several are an array. What is not there is None, as null is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

TEXT_MAX = 1_000
ELEMENTS_MAX = 32
_NAME = r"[^\s.\[\]'\"*{}$]+"
_ELEMENT = re.compile(rf"({_NAME})(?:\[([0-9]{{1,9}})\]|\['({_NAME})'\])?\Z")

Path = tuple[tuple[str, int | str | None], ...]
"""Per element its name, and the position or name in brackets; empty for the whole event."""


@lru_cache(maxsize=4096)
def parse_path(text: str) -> Path | None:
    """The expression that a text holds, or None when it is malformed. Spaces around it are none."""
    text = text.strip()
    if text == "*":
        return ()
    if len(text) > TEXT_MAX:
        return None
    parts = text.split(".")
    found = [_ELEMENT.match(part) for part in parts]
    if len(parts) > ELEMENTS_MAX or None in found:
        return None
    return tuple(_element(match) for match in found if match)


def _element(match: re.Match[str]) -> tuple[str, int | str | None]:
    name, position, inner = match.groups()
    return name, int(position) if position is not None else inner


def find(path: Path | None, event: Any) -> Any:
    """The value there, or None: nothing lies there, or the path is None."""
    if path is None:
        return None
    value = event
    for name, inner in path:
        value = _field(value, name)
        if isinstance(inner, int):
            there = isinstance(value, list) and inner < len(value)
            value = value[inner] if there else None
        elif inner is not None:
            value = value.get(inner) if isinstance(value, dict) else None
        if value is None:
            return None
    return value


def _field(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    if not isinstance(value, list):
        return None
    hits = [item[name] for item in value if isinstance(item, dict) and name in item]
    return hits[0] if len(hits) == 1 else hits or None
