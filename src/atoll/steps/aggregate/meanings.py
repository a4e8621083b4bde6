"""What the values at a place of a PState mean: which aggregates are folded into it, by which keys.

A new version may fold other aggregates into the same place. What is stored there stays as it is,
so a deployment keeps what it meant, and says when that changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from atoll.steps.aggregate.writes import Write
from atoll.topology.hidden import told

__all__ = ["Meanings", "Written", "meanings_of", "written"]

Meanings = Mapping[str, Mapping[str, list[str]]]
"""By PState and place (the struct fields on the way, with dots) what is folded into it."""


@dataclass(frozen=True)
class Written:
    """One aggregate at one place."""

    pstate: str
    place: str
    text: str


def written(write: Write, gap_ms: int | None = None) -> list[Written]:
    """What a write folds into a PState.

    Args:
        write: What was declared.
        gap_ms: For entries that are sessions the gap that ends one.
    """
    distinct = dict(write.distinct)
    keys = [part.text for part in write.target.key_parts]
    if write.exploded is not None:
        keys = [
            f"the keys of {write.exploded.expression}" if key == write.exploded.key else key
            for key in keys
        ]
    by = f" by {', '.join(keys)}" if keys else ""
    by += "" if gap_ms is None else f", in sessions with a gap of {gap_ms} ms"
    position = [part.text for part in write.target.parts if not part.is_key]
    found = []
    for name, each in write.fields:
        text = told(distinct.get(name, each))
        if write.exploded is not None:
            text = text.replace(write.exploded.value, f"the values of {write.exploded.expression}")
        place = ".".join((*position, *([] if name is None else [name])))
        found.append(Written(write.target.pstate.name, place, text + by))
    return found


def meanings_of(graph_written: Iterable[Written]) -> dict[str, dict[str, list[str]]]:
    """What is folded into each place, in an order that says nothing."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in graph_written:
        found[each.pstate][each.place].append(each.text)
    return {
        pstate: {place: sorted(set(texts)) for place, texts in sorted(places.items())}
        for pstate, places in sorted(found.items())
    }
