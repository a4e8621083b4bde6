"""Navigates a PState along a path: from places in the store to values.

A *place* is a node of the schema with the encoded key elements that lead to it. Element-wise
places are never read as a whole before a path ends at one; leaves are read when they are
reached, and the steps after that navigate in memory.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, Self

from atoll.codec.keys import EMPTY_KEY, decode_element, encode_element, successor
from atoll.errors import PathError
from atoll.path import Path, Step
from atoll.pstate.fit_path import fit_path
from atoll.pstate.spec import Position, PStateSpec, child_of
from atoll.schema import Map, Node, Scalar, Set, Struct

__all__ = ["Reader", "SortedSet", "select", "select_one"]

_Pair = tuple[bytes, bytes]
_FIELD_NAME = Scalar("str")
_SEEK_AFTER = 32
"""Entries of one element to walk over before it is cheaper to seek the next element."""


class Reader(Protocol):
    """Reads entries of a PState at one moment: a view, or something that looks like one."""

    def get(self, vnode: int, key: bytes) -> bytes | None:
        """The value of a key."""

    def scan(
        self,
        vnode: int,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[_Pair]:
        """The entries of a range of one vnode, in key order or backwards."""


class SortedSet(frozenset[Any]):
    """The elements of a stored set: equal to any set of them, iterated in stored order."""

    __slots__ = ("_order",)
    _order: tuple[Any, ...]

    def __new__(cls, elements: Iterable[Any] = ()) -> Self:
        """Keep the elements' order."""
        order = tuple(elements)
        made = super().__new__(cls, order)
        made._order = order
        return made

    def __iter__(self) -> Iterator[Any]:
        """In stored order."""
        return iter(self._order)

    def __repr__(self) -> str:
        """In stored order."""
        return f"SortedSet({list(self._order)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the order."""
        return (SortedSet, (self._order,))


class _Place(NamedTuple):
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


class _Value(NamedTuple):
    """A value in memory."""

    value: Any


_Spot = _Place | _Value


def select(reader: Reader, spec: PStateSpec, path: Path) -> list[Any]:
    """Every value that the path navigates to.

    Raises:
        PathError: When the path does not fit the schema.
    """
    fitted = fit_path(path, spec.node)
    root = _Place(spec.node, (), b"", 0 if spec.vnode_count == 1 else None)
    navigator = _Navigator(reader, spec)
    return [navigator.read(spot) for spot in navigator.walk(root, fitted.steps)]


def select_one(reader: Reader, spec: PStateSpec, path: Path) -> Any:
    """The one value that the path navigates to.

    Raises:
        PathError: When it navigates to none or to several, or does not fit the schema.
    """
    found = select(reader, spec, path)
    if len(found) == 1:
        return found[0]
    raise PathError(
        f"the path leads to {len(found)} values, not to one",
        hint="use select() for any number of values",
        pstate=spec.name,
        path=str(path),
    )


class _Navigator:
    """One navigation over one reader."""

    def __init__(self, reader: Reader, spec: PStateSpec) -> None:
        self.reader = reader
        self.spec = spec

    def walk(self, spot: _Spot, steps: Sequence[Step]) -> Iterator[_Spot]:
        """Every place or value that the steps lead to."""
        if not steps:
            yield spot
            return
        step, rest = steps[0], steps[1:]
        for following in self._step(spot, step):
            yield from self.walk(following, rest)

    def read(self, spot: _Spot) -> Any:
        """The value at a place: a leaf, or everything below in dicts and sets."""
        if isinstance(spot, _Value):
            return spot.value
        if spot.node.leaf:
            data = self._leaf(spot)
            return (
                self.spec.initial if data is None and not spot.prefix else self._decoded(spot, data)
            )
        built, found = self._build(spot)
        return built if found or not spot.by_key else None

    # -- single steps -------------------------------------------------------------------------

    def _step(self, spot: _Spot, step: Step) -> Iterator[_Spot]:
        match step:
            case Step("multi_path", paths):
                for path in paths:
                    yield from self.walk(spot, path.steps)
            case Step("filter", arguments):
                value = self.read(spot)
                if _passes(value, arguments):
                    yield _Value(value)
            case Step("null_to", (default,)):
                value = self.read(spot)
                yield _Value(default if value is None else value)
            case _ if isinstance(spot, _Place) and not spot.node.leaf:
                yield from self._stored_step(spot, step)
            case Step("must") if isinstance(spot, _Place) and self._leaf(spot) is None:
                return
            case _:
                yield from map(_Value, _in_memory(self.read(spot), step))

    def _stored_step(self, place: _Place, step: Step) -> Iterator[_Spot]:
        """One step from an element-wise place, reading no more than it needs."""
        match step.name:
            case "key" | "field":
                yield self._child(place, step.arguments[0])
            case "must":
                child = self._child(place, step.arguments[0])
                if self._exists(child):
                    yield child
            case "keys":
                yield from (_Value(element) for element, _ in self._children(place))
            case "map_vals":
                yield from (child for _, child in self._children(place))
            case "all":
                yield from (self._entry(place, *each) for each in self._children(place))
            case "first" | "last":
                children = self._children(place, reverse=step.name == "last")
                yield from (self._entry(place, *each) for each in islice(children, 1))
            case "size":
                yield _Value(sum(1 for _ in self._children(place)))
            case "sorted_range":
                yield _Value(self._range(place, *step.arguments))

    def _entry(self, place: _Place, element: Any, child: _Place) -> _Value:
        return _Value(element if isinstance(place.node, Set) else (element, self.read(child)))

    def _range(
        self,
        place: _Place,
        start: Any,
        end: Any,
        limit: int | None,
        from_end: bool,  # noqa: FBT001
    ) -> Any:
        kind = place.node.item if isinstance(place.node, Set) else place.node.key  # type: ignore[union-attr]
        low = None if start is None else encode_element(start, kind)
        high = None if end is None else encode_element(end, kind)
        found = list(islice(self._children(place, low, high, reverse=from_end), limit))
        if from_end:
            found.reverse()
        if isinstance(place.node, Set):
            return [element for element, _ in found]
        return {element: self.read(child) for element, child in found}

    # -- the store ----------------------------------------------------------------------------

    def _child(self, place: _Place, element: Any, known: bytes | None = None) -> _Place:
        """The place below one element of an element-wise place."""
        node = place.node
        if isinstance(node, Struct):
            member = node.get(element)
            assert member is not None, "the path was checked"
            prefix = place.prefix + encode_element(element, _FIELD_NAME)
            return _Place(member, (*place.position, element), prefix, place.vnode)
        assert isinstance(node, Map)
        encoded = encode_element(element, node.key)
        vnode = self.spec.vnode_of(encoded) if place.vnode is None else place.vnode
        prefix = place.prefix + encoded
        return _Place(node.value, place.position, prefix, vnode, by_key=True, known=known)

    def _leaf(self, place: _Place) -> bytes | None:
        if place.known is not None:
            return place.known
        return self.reader.get(place.vnode or 0, place.prefix or EMPTY_KEY)

    def _decoded(self, place: _Place, data: bytes | None) -> Any:
        return None if data is None else self.spec.codec(place.position).decode(data)

    def _exists(self, place: _Place) -> bool:
        if place.node.leaf:
            return self._leaf(place) is not None
        return any(True for _ in self._scan(place.vnode or 0, place.prefix, None, limit=1))

    def _scan(
        self,
        vnode: int,
        low: bytes,
        high: bytes | None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[_Pair]:
        """Entries from ``low`` up to ``high``, or to the end of the prefix ``low``."""
        end = high if high is not None else successor(low) if low else None
        return self.reader.scan(vnode, low or None, end, reverse=reverse, limit=limit)

    def _vnodes(self, place: _Place) -> Iterable[int]:
        return range(self.spec.vnode_count) if place.vnode is None else (place.vnode,)

    def _children(
        self,
        place: _Place,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Any, _Place]]:
        """(element, place below it) in key order, merged over the vnodes.

        Args:
            place: An element-wise map or set.
            low: The first encoded element, included.
            high: The last encoded element, excluded.
            reverse: Whether to go backwards.
        """
        runs = [self._heads(place, v, low, high, reverse) for v in self._vnodes(place)]
        heads = (
            runs[0]
            if len(runs) == 1
            else heapq.merge(*runs, key=operator.itemgetter(0), reverse=reverse)
        )
        at = len(place.prefix)
        node = place.node
        for encoded, vnode, known in heads:
            element, _ = decode_element(encoded, at)
            if isinstance(node, Map):
                child = _Place(node.value, place.position, encoded, vnode, True, known)  # noqa: FBT003
            else:
                child = place
            yield element, child

    def _heads(
        self,
        place: _Place,
        vnode: int,
        low: bytes | None,
        high: bytes | None,
        reverse: bool,  # noqa: FBT001
    ) -> Iterator[tuple[bytes, int, bytes | None]]:
        """(prefix through the element, vnode, value if it is a leaf) of each element once."""
        prefix = place.prefix
        start = prefix + (low or b"")
        end = prefix + high if high is not None else successor(prefix) if prefix else None
        single = isinstance(place.node, Set) or place.node.value.leaf  # type: ignore[union-attr]
        scan = self.reader.scan
        if single:
            for key, value in scan(vnode, start or None, end, reverse=reverse):
                yield key, vnode, value
            return
        while True:
            head, head_end, walked = b"", b"", 0
            for key, _ in scan(vnode, start or None, end, reverse=reverse):
                if head <= key < head_end:
                    walked += 1
                    if walked > _SEEK_AFTER:
                        break
                    continue
                head, walked = key[: decode_element(key, len(prefix))[1]], 0
                head_end = successor(head)
                yield head, vnode, None
            else:
                return
            if reverse:
                end = head
            else:
                start = head_end

    def _build(self, place: _Place) -> tuple[Any, bool]:
        """Everything below an element-wise place, in one scan; whether there is anything."""
        low, high = place.prefix or None, successor(place.prefix) if place.prefix else None
        runs = [self.reader.scan(vnode, low, high) for vnode in self._vnodes(place)]
        entries = runs[0] if len(runs) == 1 else heapq.merge(*runs, key=operator.itemgetter(0))
        builder = _Builder(self.spec, place)
        found = False
        for key, value in entries:
            builder.add(key, value)
            found = True
        return builder.finish(), found


class _Builder:
    """Builds nested dicts and sets from sorted entries."""

    def __init__(self, spec: PStateSpec, place: _Place) -> None:
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


# -- values in memory ---------------------------------------------------------------------------


def _in_memory(value: Any, step: Step) -> Iterable[Any]:
    """What one step leads to from a value."""
    match step.name:
        case "key" | "field" | "must":
            return _by_key(value, step)
        case "size":
            return [0 if value is None else len(_sized(value, step))]
        case "sorted_range":
            return [_range_of(value, *step.arguments)]
    if value is None:
        return ()
    if isinstance(value, dict):
        items: Sequence[Any] = {"keys": tuple, "map_vals": lambda d: tuple(d.values())}.get(
            step.name, lambda d: tuple(d.items())
        )(value)
    elif step.name in {"keys", "map_vals"}:
        raise _misfit(value, step)
    else:
        items = tuple(_sized(value, step))
    if step.name in {"first", "last"}:
        return items[:1] if step.name == "first" else items[-1:]
    return items


def _by_key(value: Any, step: Step) -> Iterable[Any]:
    (key,) = step.arguments
    if value is None:
        return () if step.name == "must" else (None,)
    if not isinstance(value, dict):
        raise _misfit(value, step)
    if step.name == "must" and key not in value:
        return ()
    return (value.get(key),)


def _sized(value: Any, step: Step) -> Any:
    if isinstance(value, dict | list | tuple | set | frozenset):
        return value
    raise _misfit(value, step)


def _range_of(value: Any, start: Any, end: Any, limit: int | None, from_end: bool) -> Any:  # noqa: FBT001
    inside = [
        element
        for element in sorted(value or ())
        if (start is None or element >= start) and (end is None or element < end)
    ]
    if limit is not None:
        inside = inside[max(0, len(inside) - limit) :] if from_end else inside[:limit]
    return {key: value[key] for key in inside} if isinstance(value, dict) else inside


def _misfit(value: Any, step: Step) -> PathError:
    return PathError(
        f"{step} met a value of type {type(value).__name__}", hint="see the PState's schema"
    )


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _passes(value: Any, arguments: tuple[Any, ...]) -> bool:
    if len(arguments) == 1:
        return bool(arguments[0](value))
    comparison, operand = arguments
    if comparison not in {"==", "!="} and (value is None or operand is None):
        return False
    try:
        return bool(_COMPARE[comparison](value, operand))
    except TypeError as error:
        raise PathError(
            f"filter({comparison!r}, {operand!r}) met a value that it cannot be compared with",
            hint="compare with a value of the same type",
            value_type=type(value).__name__,
        ) from error
