"""Places in a store: a node of the schema with the encoded key elements that lead to it.

Element-wise places are read by seeks and bounded scans: nothing beyond what was asked for.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from atoll.codec.keys.elements import EMPTY_KEY, decode_element, encode_element, successor
from atoll.errors import PathError
from atoll.pstate.navigate.ordered import SortedSet
from atoll.pstate.reader import Reader
from atoll.pstate.spec import Position, PStateSpec, child_of
from atoll.pstate.store.sizes import SIZES_COMPLETE, counter_key, size_of
from atoll.schema import Map, Node, Scalar, Set, Struct

_Pair = tuple[bytes, bytes]
_FIELD_NAME = Scalar("str")
_SEEK_AFTER = 32
"""Entries of one element to walk over before it is cheaper to seek the next element."""
_PAGE_ENTRIES = 1024


class Place(NamedTuple):
    """A place in the store.

    ``known`` is the stored value of a leaf that a scan has already met; ``by_key`` says that a
    key led here, so that nothing there means None rather than an empty map.
    """

    node: Node
    position: Position
    prefix: bytes
    vnode: int | None
    by_key: bool = False
    known: bytes | None = None


class Span(NamedTuple):
    """Which elements of an element-wise place: encoded, ``low`` included, ``high`` excluded."""

    low: bytes | None = None
    high: bytes | None = None
    limit: int | None = None
    reverse: bool = False


_EVERYTHING = Span()


class Places:
    """Reads of places through one reader."""

    def __init__(self, reader: Reader, spec: PStateSpec) -> None:
        self.reader = reader
        self.spec = spec

    def root(self) -> Place:
        """The whole PState."""
        return Place(self.spec.node, (), b"", 0 if self.spec.vnode_count == 1 else None)

    def child(self, place: Place, element: Any) -> Place:
        """The place below one element of an element-wise map or struct."""
        node = place.node
        if isinstance(node, Struct):
            member = node.get(element) if isinstance(element, str) else None
            if member is None:
                raise PathError(
                    f"the struct has no field {element!r}",
                    hint=f"its fields are {', '.join(node.names())}",
                )
            prefix = place.prefix + encode_element(element, _FIELD_NAME)
            return Place(member, (*place.position, element), prefix, place.vnode)
        if not isinstance(node, Map):
            raise PathError("a set has no keys", hint="use set_elem(element)")
        prefix, vnode = self.through(place, element)
        return Place(node.value, place.position, prefix, vnode, by_key=True)

    def through(self, place: Place, element: Any) -> tuple[bytes, int | None]:
        """The encoded key through an element of an element-wise map or set, and its vnode.

        None where the vnode cannot be told: what begins with the key lies in one of them.
        """
        kind = place.node.item if isinstance(place.node, Set) else place.node.key  # type: ignore[union-attr]
        encoded = encode_element(element, kind)
        vnode = place.vnode
        if vnode is None and not place.prefix:
            vnode = self.spec.vnode_of(encoded)
        return place.prefix + encoded, vnode

    def has(self, place: Place, element: Any) -> bool:
        """Whether an element is in an element-wise set."""
        key, vnode = self.through(place, element)
        return self._get(vnode, key) is not None

    def leaf(self, place: Place) -> bytes | None:
        """The stored value of a leaf."""
        if place.known is not None:
            return place.known
        return self._get(place.vnode, place.prefix or EMPTY_KEY)

    def _get(self, vnode: int | None, key: bytes) -> bytes | None:
        if vnode is not None:
            return self.reader.get(vnode, key)
        values = (self.reader.get(each, key) for each in range(self.spec.vnode_count))
        return next((value for value in values if value is not None), None)

    def exists(self, place: Place) -> bool:
        """Whether there is anything at a place."""
        if place.node.leaf:
            return self.leaf(place) is not None
        low, high = _within(place)
        return any(
            True
            for vnode in self._vnodes(place)
            for _ in self.reader.scan(vnode, low, high, limit=1)
        )

    def read(self, place: Place) -> Any:
        """The value at a place: a leaf, or everything below in dicts and sets."""
        if place.node.leaf:
            data = self.leaf(place)
            if data is not None:
                return self.spec.codec(place.position).decode(data)
            return None if place.prefix else self.spec.initial_value()
        built, found = self._build(place)
        return built if found or not place.by_key else None

    def children(self, place: Place, span: Span = _EVERYTHING) -> Iterator[tuple[Any, Place]]:
        """(element, place below it) of an element-wise map or set, merged over the vnodes.

        In key order, or backwards. For a set the place is the set's own.
        """
        runs = [self._heads(place, vnode, span) for vnode in self._vnodes(place)]
        heads: Iterable[tuple[bytes, int, bytes | None]] = (
            runs[0]
            if len(runs) == 1
            else heapq.merge(*runs, key=operator.itemgetter(0), reverse=span.reverse)
        )
        at, node = len(place.prefix), place.node
        for count, (encoded, vnode, known) in enumerate(heads, 1):
            element, _ = decode_element(encoded, at)
            if isinstance(node, Map):
                yield element, Place(node.value, place.position, encoded, vnode, True, known)  # noqa: FBT003
            else:
                yield element, place
            if count == span.limit:
                return

    def size(self, place: Place) -> int:
        """How many elements an element-wise place has: read where it is tracked, else counted."""
        if not self.spec.track_size or isinstance(place.node, Struct):
            return sum(1 for _ in self.children(place))
        return sum(self._size_in(place, vnode) for vnode in self._vnodes(place))

    def _size_in(self, place: Place, vnode: int) -> int:
        if self.reader.get(vnode, SIZES_COMPLETE) is None:
            return sum(1 for _ in self._heads(place, vnode, _EVERYTHING))
        return size_of(self.reader.get(vnode, counter_key(place.prefix)))

    def _vnodes(self, place: Place) -> Iterable[int]:
        return range(self.spec.vnode_count) if place.vnode is None else (place.vnode,)

    def _heads(
        self, place: Place, vnode: int, span: Span
    ) -> Iterator[tuple[bytes, int, bytes | None]]:
        """(prefix through the element, vnode, value if it is a leaf) of each element once."""
        if span.limit == 0:
            return
        prefix = place.prefix
        start, end = _within(place)
        start = prefix + span.low if span.low is not None else start
        end = prefix + span.high if span.high is not None else end
        scan, reverse = self.reader.scan, span.reverse
        if isinstance(place.node, Set) or place.node.value.leaf:  # type: ignore[union-attr]
            for key, value in scan(vnode, start, end, reverse=reverse, limit=span.limit):
                yield key, vnode, value
            return
        head = head_end = b""
        entries_max = _SEEK_AFTER
        while True:
            walked = found = 0
            for key, _ in scan(vnode, start, end, reverse=reverse, limit=entries_max):
                walked += 1
                if head <= key < head_end:
                    continue
                found += 1
                head = key[: decode_element(key, len(prefix))[1]]
                head_end = successor(head)
                yield head, vnode, None
            if walked < entries_max:
                return
            few = found * _SEEK_AFTER <= walked
            entries_max = _SEEK_AFTER if few else min(2 * entries_max, _PAGE_ENTRIES)
            if reverse:
                end = head
            else:
                start = head_end

    def _build(self, place: Place) -> tuple[Any, bool]:
        """Everything below an element-wise place, in one scan; whether there is anything."""
        low, high = _within(place)
        runs = [self.reader.scan(vnode, low, high) for vnode in self._vnodes(place)]
        entries = runs[0] if len(runs) == 1 else heapq.merge(*runs, key=operator.itemgetter(0))
        builder = Builder(self.spec, place)
        found = False
        for key, value in entries:
            builder.add(key, value)
            found = True
        return builder.finish(), found


def _within(place: Place) -> tuple[bytes | None, bytes | None]:
    return (place.prefix, successor(place.prefix)) if place.prefix else (None, None)


class Builder:
    """Builds nested dicts and sets from sorted entries."""

    def __init__(self, spec: PStateSpec, place: Place) -> None:
        self._spec = spec
        self._place = place
        self._start = len(place.prefix)
        self._sets: list[tuple[dict[Any, Any], Any]] = []
        self._holder: dict[str, Any] = {}
        self._new(place.node, self._holder, "root")

    def add(self, key: bytes, value: bytes) -> None:
        """Put one entry where its key leads."""
        node, position = self._place.node, self._place.position
        container = self._holder["root"]
        at = self._start
        while True:
            element, at = decode_element(key, at)
            if isinstance(node, Set):
                container.append(element)
                return
            if isinstance(node, Struct):
                position = (*position, element)
            child = child_of(node, element)  # type: ignore[arg-type]  # element-wise
            assert child is not None, "entries are written by the same schema"
            if child.leaf:
                container[element] = self._spec.codec(position).decode(value)
                return
            if element not in container:
                self._new(child, container, element)
            container, node = container[element], child

    def finish(self) -> Any:
        """The value of the place."""
        for container, name in self._sets:
            container[name] = SortedSet(container[name])
        return self._holder["root"]

    def _new(self, node: Node, container: dict[Any, Any], name: Any) -> None:
        """Put what stands for an empty place there."""
        if isinstance(node, Set):
            container[name] = []
            self._sets.append((container, name))
            return
        container[name] = {}
        if isinstance(node, Struct):
            for field, member in node.fields:
                container[name][field] = None
                if not member.leaf:
                    self._new(member, container[name], field)
