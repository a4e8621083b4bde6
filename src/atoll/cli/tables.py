"""State as a table: what is nested becomes columns, one row per entry.

Maps add key columns and make a row per entry, structs become a column per field, lists and sets a
row per element; whatever is deeper stays JSON in its cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atoll.schema import List, Map, Node, Scalar, Set, Struct


def table_of(node: Node, value: Any) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of the value that a PState holds at a node."""
    keys = 0
    inner = node
    while isinstance(inner, Map):
        keys += 1
        inner = inner.value
    names = ["key"] if keys == 1 else [f"key {number}" for number in range(1, keys + 1)]
    rows = [
        [*found, *cells] for found, leaf in _entries(value, keys) for cells in _cells(inner, leaf)
    ]
    return names + _columns(inner), rows


def table_of_values(values: list[Any]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of whatever a path navigated to, by the shape that the values share."""
    if values and all(isinstance(value, dict) for value in values):
        names = list(dict.fromkeys(name for value in values for name in value))
        return names, [[value.get(name) for name in names] for value in values]
    if values and all(isinstance(value, list) and len(value) == 2 for value in values):  # noqa: PLR2004 - pairs
        return ["key", "value"], values
    return ["value"], [[value] for value in values]


def _entries(value: Any, depth: int) -> Iterator[tuple[list[Any], Any]]:
    """The keys and the leaf of each entry of maps nested ``depth`` deep."""
    if depth == 0:
        yield [], value
        return
    pairs = value.items() if isinstance(value, dict) else (value or [])
    for key, item in pairs:
        for keys, leaf in _entries(item, depth - 1):
            yield [key, *keys], leaf


def _columns(node: Node) -> list[str]:
    return list(node.names()) if isinstance(node, Struct) else ["value"]


def _cells(node: Node, value: Any) -> Iterator[list[Any]]:
    match node:
        case Struct():
            fields = value or {}
            yield [fields.get(name) for name in node.names()]
        case Set() | List() if isinstance(value, list):
            for item in value:
                yield [item]
        case Scalar() | Set() | List() | Map():
            yield [value]
