"""Follows paths from places in a store to values, reading no more than each step needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from atoll.codec.keys.elements import encode_element, successor
from atoll.path import Step
from atoll.pstate.navigate.ordered import SortedSet
from atoll.pstate.navigate.places import Place, Places, Span
from atoll.pstate.navigate.walker import KINDS, Walker
from atoll.pstate.ranked.fitting import RANKED_STEPS, follow_ranked
from atoll.schema import Scalar, Set


class StoredWalker(Walker):
    """Follows paths through places and the values found there."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def read(self, spot: Any) -> Any:
        """The value at a spot."""
        return self.places.read(spot) if isinstance(spot, Place) else spot

    def is_none(self, spot: Any) -> bool:
        """Whether the value at a spot is None; an element-wise place is not read for that."""
        if not isinstance(spot, Place):
            return spot is None
        if spot.node.leaf:
            return self.read(spot) is None
        return spot.by_key and not self.places.exists(spot)

    def follow(self, spot: Any, step: Step) -> Iterable[Any]:
        """Every spot that one step leads to."""
        if not isinstance(spot, Place):
            return KINDS[step.name].select(spot, step)
        if not spot.node.leaf:
            return self._stored(spot, step)
        if step.name == "must" and self.places.leaf(spot) is None:
            return ()
        return KINDS[step.name].select(self.read(spot), step)

    def _stored(self, place: Place, step: Step) -> Iterator[Any]:  # by case  # noqa: C901, PLR0912
        """One step from an element-wise place."""
        places = self.places
        match step.name:
            case "key" | "field":
                yield places.child(place, step.arguments[0])
            case "must":
                child = places.child(place, step.arguments[0])
                if places.exists(child):
                    yield child
            case "keys":
                yield from (element for element, _ in places.children(place))
            case "map_vals":
                yield from (child for _, child in places.children(place))
            case "all":
                yield from (self._entry(place, *each) for each in places.children(place))
            case "first" | "last":
                span = Span(limit=1, reverse=step.name == "last")
                yield from (self._entry(place, *each) for each in places.children(place, span))
            case "size":
                yield places.size(place)
            case "sorted_range":
                yield range_of(places, place, step)
            case name if name in RANKED_STEPS:
                yield from follow_ranked(places, place, step)
            case "map_key":
                if places.exists(places.child(place, step.arguments[0])):
                    yield step.arguments[0]
            case "sub_map":
                yield self._sub_map(place, step)
            case "set_elem":
                if places.has(place, step.arguments[0]):
                    yield step.arguments[0]
            case "void_set_elem":
                return
            case "subset":
                kept = (e for e in _in_order(place, step) if places.has(place, e))
                yield SortedSet(kept)
            case _:
                yield from KINDS[step.name].select(self.read(place), step)

    def _entry(self, place: Place, element: Any, child: Place) -> Any:
        return element if isinstance(place.node, Set) else (element, self.read(child))

    def _sub_map(self, place: Place, step: Step) -> dict[Any, Any]:
        children = ((e, self.places.child(place, e)) for e in _in_order(place, step))
        return {e: self.read(child) for e, child in children if self.places.exists(child)}


def _kind(place: Place) -> Scalar:
    kind: Scalar = place.node.item if isinstance(place.node, Set) else place.node.key  # type: ignore[union-attr]
    return kind


def _in_order(place: Place, step: Step) -> list[Any]:
    """The elements that a step names, each once, in stored order."""
    kind = _kind(place)
    by_code = {encode_element(element, kind): element for element in step.arguments}
    return [by_code[code] for code in sorted(by_code)]


def range_of(places: Places, place: Place, step: Step) -> Any:
    """The part of an element-wise map (as a dict) or set (as a list) that a range step names."""
    start, end, limit, from_end, include_start, include_end = step.arguments
    low = None if start is None else encode_element(start, _kind(place))
    high = None if end is None else encode_element(end, _kind(place))
    if low is not None and not include_start:
        low = successor(low)
    if high is not None and include_end:
        high = successor(high)
    found = list(places.children(place, Span(low, high, limit, from_end)))
    if from_end:
        found.reverse()
    if isinstance(place.node, Set):
        return [element for element, _ in found]
    return {element: places.read(child) for element, child in found}
