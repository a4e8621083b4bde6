"""Walking through a PState place by place: what one place holds, a page of entries at a time.

Nothing below an entry is read: of a map of maps a page says which keys there are, and the maps
behind them are walked when somebody asks. So a page costs about the same however much there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from atoll.codec.keys.elements import encode_element, successor
from atoll.errors import PathError
from atoll.path import Path
from atoll.pstate.navigate.fit_path import fit_path
from atoll.pstate.navigate.fit_value import fit_value
from atoll.pstate.navigate.places import Place, Places, Span
from atoll.pstate.navigate.stored import StoredWalker
from atoll.pstate.reader import Reader
from atoll.pstate.spec import PStateSpec
from atoll.schema import List, Map, Node, Set, Struct, to_text

Kind = Literal["map", "set", "list", "struct", "value", "nothing"]

_LEADING = frozenset({"key", "field", "nth"})
_HINT = 'walk by keys, fields and places in lists: [["key", "a"], ["field", "n"], ["nth", 0]]'


@dataclass(frozen=True)
class Walk:
    """Which page of a place is wanted.

    Attributes:
        path: Keys, fields and indexes from the top; from outside.
        start: The first key or element of the page, in a list of one; None for the first there is.
        beyond: Whether the start itself is left out.
        limit: How many entries at most.
        backwards: Whether the page ends where it would begin, and shows what is before.
    """

    path: Path
    start: list[Any] | None = None
    beyond: bool = False
    limit: int = 50
    backwards: bool = False


@dataclass(frozen=True)
class Entry:
    """One entry of a place.

    Attributes:
        step: What leads to it, as a step of a path; None where nothing is behind it.
        label: Its key, element, field or index.
        value: What it holds, where that is a single stored value; else None.
        stored: Whether ``value`` is that; else it is walked to.
        node: The schema of what is there.
    """

    step: tuple[str, Any] | None
    label: Any
    node: str
    value: Any = None
    stored: bool = False


@dataclass(frozen=True)
class Walked:
    """A page of a place.

    Attributes:
        path: The path, with keys of the schema's types.
        kind: What the place is.
        node: Its schema, as users write it.
        entries: Those of the page, in order.
        more: Whether there are others beyond, in the direction of the walk.
        value: What is there, where it is no map, set, list or struct.
        count: How many entries, where that is known without counting.
    """

    path: Path
    kind: Kind
    node: str
    entries: list[Entry] = field(default_factory=list)
    more: bool = False
    value: Any = None
    count: int | None = None


def walk(reader: Reader, spec: PStateSpec, wanted: Walk) -> Walked:
    """A page of what is at the end of a path.

    Raises:
        PathError: When the path has other steps, does not fit the schema, or leads nowhere.
    """
    for step in wanted.path.steps:
        if step.name not in _LEADING:
            raise PathError(f"{step} does not lead to one place", hint=_HINT)
    path = fit_path(wanted.path, spec.node)
    places = Places(reader, spec)
    walker = StoredWalker(places)
    found = [spot for spot, _ in walker.walk(places.root(), path.steps)]
    node = _node_at(spec.node, path)
    if not found or walker.is_none(found[0]):
        return Walked(path, "nothing", to_text(node))
    (spot,) = found
    if isinstance(spot, Place) and not spot.node.leaf:
        return _stored(places, spot, path, wanted)
    return _held(walker.read(spot), node, path, wanted)


def _node_at(node: Node, path: Path) -> Node:
    for step in path.steps:
        match node:
            case Map(_, value):
                node = value
            case List(item):
                node = item
            case Struct():
                node = node.get(step.arguments[0]) or node
    return node


def _stored(places: Places, place: Place, path: Path, wanted: Walk) -> Walked:
    """A place that is stored element by element."""
    node = place.node
    if isinstance(node, Struct):
        fields = [_entry(places, "field", name, places.child(place, name)) for name in node.names()]
        return Walked(path, "struct", to_text(node), fields)
    assert isinstance(node, Map | Set)
    kind = node.item if isinstance(node, Set) else node.key
    span = Span(limit=wanted.limit + 1, reverse=wanted.backwards)
    if wanted.start is not None:
        (start,) = wanted.start
        at = encode_element(fit_value(start, kind, outside=True), kind)
        if wanted.backwards:
            span = span._replace(high=at if wanted.beyond else successor(at))
        else:
            span = span._replace(low=successor(at) if wanted.beyond else at)
    found = list(islice(places.children(place, span), wanted.limit + 1))
    more = len(found) > wanted.limit
    found = found[: wanted.limit]
    if wanted.backwards:
        found.reverse()
    count = places.size(place) if places.spec.track_size else None
    if isinstance(node, Set):
        text = to_text(node.item)
        entries = [Entry(None, element, text) for element, _ in found]
        return Walked(path, "set", to_text(node), entries, more, count=count)
    entries = [_entry(places, "key", key, child) for key, child in found]
    return Walked(path, "map", to_text(node), entries, more, count=count)


def _entry(places: Places, word: str, label: Any, child: Place) -> Entry:
    stored = child.node.leaf
    value = places.read(child) if stored else None
    return Entry((word, label), label, to_text(child.node), value, stored)


def _held(value: Any, node: Node, path: Path, wanted: Walk) -> Walked:
    """A value that is stored as a whole."""
    text = to_text(node)
    if isinstance(node, List):
        return _page(_listed(value, to_text(node.item)), value, path, text, wanted)
    if isinstance(node, Struct):
        fields = [
            Entry(("field", name), name, to_text(member), value[name], stored=True)
            for name, member in node.fields
        ]
        return Walked(path, "struct", text, fields)
    return Walked(path, "value", text, value=value)


def _listed(value: list[Any], text: str) -> Iterator[Entry]:
    return (Entry(("nth", at), at, text, item, stored=True) for at, item in enumerate(value))


def _page(
    entries: Iterator[Entry], value: list[Any], path: Path, text: str, wanted: Walk
) -> Walked:
    """A page of a list, which is there as a whole."""
    start = 0 if wanted.start is None else wanted.start[0]
    if type(start) is not int or start < 0:
        raise PathError(f"{start!r} is no index", hint="give a number from 0 on")
    first = start + wanted.beyond
    end = first + wanted.limit
    if wanted.backwards:
        end = len(value) if wanted.start is None else min(start + (not wanted.beyond), len(value))
        first = max(0, end - wanted.limit)
    more = first > 0 if wanted.backwards else end < len(value)
    found = list(islice(entries, first, end))
    return Walked(path, "list", text, found, more, count=len(value))
