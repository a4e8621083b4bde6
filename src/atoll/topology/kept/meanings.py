"""What the values at a place of a PState mean: which aggregates are folded into it, by which keys.

A new version may fold other aggregates into the same place. What is stored there stays as it is,
so a deployment keeps what it meant, and says when that changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Meanings = Mapping[str, Mapping[str, list[str]]]
"""By PState and place (the struct fields on the way, with dots) what is folded into it."""


@dataclass(frozen=True)
class Written:
    """One aggregate at one place."""

    pstate: str
    place: str
    text: str


def meanings_of(graph_written: Iterable[Written]) -> dict[str, dict[str, list[str]]]:
    """What is folded into each place, in an order that says nothing."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in graph_written:
        found[each.pstate][each.place].append(each.text)
    return {
        pstate: {place: sorted(set(texts)) for place, texts in sorted(places.items())}
        for pstate, places in sorted(found.items())
    }
