"""State as a user's function sees it: dicts, sets and values over the vnode of its row.

A handle reads what the microbatch has written so far and collects what the function writes;
:meth:`flush` hands that to the vnode's session, where it becomes part of the attempt's one
transaction. Everything is typed: a key or a value that does not fit the schema is an error at
the line that used it.

A row's function runs where the vnode of its key lives. A handle reaches that vnode only, and
says so when it is asked for a key of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, overload

from atoll.codec.keys import EMPTY_KEY, decode_element, encode_element, successor
from atoll.errors import StateError
from atoll.path import Path
from atoll.pstate.fit_path import fit_path, fit_transform
from atoll.pstate.navigate.writing import StateChange, check_vnode
from atoll.pstate.spec import Position, PStateSpec
from atoll.pstate.writes import Session, Writes
from atoll.schema import Map, Node, Scalar, Set, Struct

__all__ = ["Handle", "MapHandle", "SetHandle", "StructHandle", "ValueHandle", "handle_for"]

_FIELD_NAME = Scalar("str")


class Handle:
    """A place in a PState, within one vnode."""

    __slots__ = ("_node", "_position", "_prefix", "_writes")

    def __init__(self, writes: Writes, node: Node, position: Position, prefix: bytes) -> None:
        """Made by :func:`handle_for` and by the handles above."""
        self._writes = writes
        self._node: Any = node
        self._position = position
        self._prefix = prefix

    def flush(self) -> None:
        """Hand what was written to the session. Called once the vnode's rows are done."""
        self._writes.flush()

    def waiting(self) -> int:
        """How many entries were written and not handed to the session."""
        return len(self._writes.unflushed)

    def savepoint(self) -> None:
        """Let :meth:`roll_back` take back what is written to this PState from now on."""
        self._writes.savepoint()

    def roll_back(self) -> None:
        """Take back what was written to this PState since the savepoint."""
        self._writes.roll_back()

    def clear(self) -> None:
        """Remove everything here."""
        self._writes.clear(self._prefix)

    def select(self, path: Path) -> list[Any]:
        """Every value that a path leads to from here, as the microbatch has written it so far.

        Raises:
            PathError: When the path does not fit the schema, or writes.
        """
        fitted = fit_path(path, self._node)
        return self._change().select(fitted)

    def transform(self, path: Path) -> None:
        """Change what a path leads to from here: ``term``, ``set`` or ``delete`` is its last step.

        What the path does not lead to is neither read nor written.

        Raises:
            PathError: When the path does not fit the schema, or does not write.
            StateError: When a value that it makes does not fit, or a key is another vnode's.
        """
        fitted = fit_transform(path, self._node)
        self._change().transform(fitted)

    def _change(self) -> StateChange:
        return StateChange(self._writes, self._node, self._position, self._prefix)

    def _bounds(self) -> tuple[bytes | None, bytes | None]:
        return (self._prefix, successor(self._prefix)) if self._prefix else (None, None)

    def _element(self, value: Any, kind: Scalar) -> bytes:
        """The encoded key through this element; StateError when it is another vnode's."""
        encoded = encode_element(value, kind)
        if not self._prefix:
            check_vnode(self._writes, value, encoded)
        return self._prefix + encoded

    def _child(self, node: Node, position: Position, prefix: bytes) -> Any:
        return _HANDLES[type(node)](self._writes, node, position, prefix)

    def _any(self) -> bool:
        return any(True for _ in self._writes.scan(*self._bounds()))


class MapHandle(Handle, MutableMapping[Any, Any]):
    """A stored map: works as a dict, sorted by key.

    A value that is itself stored by element (a map of maps) comes as a handle, also when there
    is nothing yet: ``outgoing[user][transfer] = amount`` needs no preparation.
    """

    __slots__ = ()

    @overload
    def get(self, key: Any) -> Any: ...
    @overload
    def get(self, key: Any, default: Any) -> Any: ...
    def get(self, key: Any, default: Any = None) -> Any:
        """The value of the key, or the default; a nested handle for element-wise values."""
        place = self._element(key, self._node.key)
        if not self._node.value.leaf:
            return self._child(self._node.value, self._position, place)
        data = self._writes.get(place)
        return default if data is None else self._decode(data)

    def __getitem__(self, key: Any) -> Any:
        """The value of the key; KeyError when it is missing."""
        place = self._element(key, self._node.key)
        if not self._node.value.leaf:
            return self._child(self._node.value, self._position, place)
        data = self._writes.get(place)
        if data is None:
            raise KeyError(key)
        return self._decode(data)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value of the key; an element-wise value is replaced as a whole."""
        place = self._element(key, self._node.key)
        if self._node.value.leaf:
            codec = self._writes.spec.codec(self._position)
            self._writes.unflushed[place] = codec.encode(value)
        else:
            _replace(self._child(self._node.value, self._position, place), value)

    def __delitem__(self, key: Any) -> None:
        """Remove the key, with everything below it; KeyError when it is missing."""
        if key not in self:
            raise KeyError(key)
        place = self._element(key, self._node.key)
        if self._node.value.leaf:
            self._writes.unflushed[place] = None
        else:
            self._writes.clear(place)

    def __contains__(self, key: object) -> bool:
        """Whether there is anything under the key."""
        place = self._element(key, self._node.key)
        if self._node.value.leaf:
            return self._writes.get(place) is not None
        return any(True for _ in self._writes.scan(place, successor(place)))

    def __iter__(self) -> Iterator[Any]:
        """The keys of this vnode in order."""
        return self.range_keys()

    def __len__(self) -> int:
        """How many keys there are in this vnode: walks over all of them, unless it is tracked."""
        known = self._writes.size(self._prefix)
        return sum(1 for _ in self) if known is None else known

    def __bool__(self) -> bool:
        """Whether there is any key."""
        return self._any()

    def __eq__(self, other: object) -> bool:
        """Equal to a mapping of the same entries."""
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        """Name and type, without reading anything."""
        return f"<map of {self._writes.spec.name}>"

    def range_keys(
        self, start: Any = None, end: Any = None, *, reverse: bool = False
    ) -> Iterator[Any]:
        """The keys of a range in order, or backwards.

        Args:
            start: The first key, included; None for the beginning.
            end: The last key, excluded; None for the end.
            reverse: Whether to go backwards.
        """
        for key, _ in self._range(start, end, reverse=reverse):
            yield key

    def range_items(
        self, start: Any = None, end: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """(key, value) of a range in order, or backwards; see :meth:`range_keys`."""
        for key, data in self._range(start, end, reverse=reverse):
            if self._node.value.leaf:
                yield key, self._decode(data)
            else:
                yield key, self[key]

    def clear(self) -> None:
        """Remove everything here."""
        Handle.clear(self)

    def _decode(self, data: bytes) -> Any:
        return self._writes.spec.codec(self._position).decode(data)

    def _range(self, start: Any, end: Any, *, reverse: bool) -> Iterator[tuple[Any, bytes]]:
        low, high = self._bounds()
        at = len(self._prefix)
        if start is not None:
            low = self._prefix + encode_element(start, self._node.key)
        if end is not None:
            high = self._prefix + encode_element(end, self._node.key)
        single = self._node.value.leaf
        head = end = b""
        for key, data in self._writes.scan(low, high, reverse=reverse):
            if head <= key < end:  # another entry below the element just yielded
                continue
            element, after = decode_element(key, at)
            if not single:
                head, end = key[:after], successor(key[:after])
            yield element, data


class SetHandle(Handle):
    """A stored set, sorted."""

    __slots__ = ()

    def add(self, element: Any) -> None:
        """Put the element in."""
        self._writes.unflushed[self._element(element, self._node.item)] = b""

    def update(self, elements: Iterable[Any]) -> None:
        """Put all of these in."""
        for element in elements:
            self.add(element)

    def discard(self, element: Any) -> None:
        """Take the element out, if it is in."""
        place = self._element(element, self._node.item)
        if self._writes.get(place) is not None:
            self._writes.unflushed[place] = None

    def remove(self, element: Any) -> None:
        """Take the element out; KeyError when it is not in."""
        if element not in self:
            raise KeyError(element)
        self.discard(element)

    def __contains__(self, element: object) -> bool:
        """Whether the element is in."""
        return self._writes.get(self._element(element, self._node.item)) is not None

    def __iter__(self) -> Iterator[Any]:
        """The elements in order."""
        return self.range()

    def __len__(self) -> int:
        """How many elements there are: walks over all of them, unless it is tracked."""
        known = self._writes.size(self._prefix)
        return sum(1 for _ in self) if known is None else known

    def __bool__(self) -> bool:
        """Whether there is any element."""
        return self._any()

    def __eq__(self, other: object) -> bool:
        """Equal to a set of the same elements."""
        return isinstance(other, set | frozenset | SetHandle) and set(self) == set(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        """Name and type, without reading anything."""
        return f"<set of {self._writes.spec.name}>"

    def range(self, start: Any = None, end: Any = None, *, reverse: bool = False) -> Iterator[Any]:
        """The elements from ``start`` (included) to ``end`` (excluded), or backwards."""
        low, high = self._bounds()
        if start is not None:
            low = self._prefix + encode_element(start, self._node.item)
        if end is not None:
            high = self._prefix + encode_element(end, self._node.item)
        for key, _ in self._writes.scan(low, high, reverse=reverse):
            yield decode_element(key, len(self._prefix))[0]


class ValueHandle(Handle):
    """One stored value: a PState that is a scalar, list or struct as a whole."""

    __slots__ = ()

    def get(self, default: Any = None) -> Any:
        """The value; when it was never written the default, or the PState's initial value."""
        data = self._writes.get(self._prefix or EMPTY_KEY)
        if data is not None:
            return self._writes.spec.codec(self._position).decode(data)
        return self._writes.spec.initial if default is None and not self._prefix else default

    def set(self, value: Any) -> None:
        """Set the value."""
        encoded = self._writes.spec.codec(self._position).encode(value)
        self._writes.unflushed[self._prefix or EMPTY_KEY] = encoded

    def update(self, change: Callable[[Any], Any]) -> None:
        """Set the value to what the function makes of it."""
        self.set(change(self.get()))

    @property
    def value(self) -> Any:
        """The value, to read and to assign."""
        return self.get()

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)

    def clear(self) -> None:
        """Forget the value: as if it had never been written."""
        place = self._prefix or EMPTY_KEY
        if self._writes.get(place) is not None:
            self._writes.unflushed[place] = None

    def __repr__(self) -> str:
        """Name and type, without reading anything."""
        return f"<value of {self._writes.spec.name}>"


class StructHandle(Handle):
    """A struct whose fields are stored apart: ``user["name"] = "Ann"; user["tags"].add("x")``."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        """The field's value (None when it was never set), or its handle if element-wise."""
        member, position, place = self._field(name)
        if not member.leaf:
            return self._child(member, position, place)
        data = self._writes.get(place)
        return None if data is None else self._writes.spec.codec(position).decode(data)

    def __setitem__(self, name: str, value: Any) -> None:
        """Set the field; an element-wise one is replaced as a whole."""
        member, position, place = self._field(name)
        if member.leaf:
            codec = self._writes.spec.codec(position)
            self._writes.unflushed[place] = codec.encode(value)
        else:
            _replace(self._child(member, position, place), value)

    def __bool__(self) -> bool:
        """Whether any field was ever set."""
        return self._any()

    def __repr__(self) -> str:
        """Name and type, without reading anything."""
        return f"<struct of {self._writes.spec.name}>"

    def _field(self, name: str) -> tuple[Node, Position, bytes]:
        member = self._node.get(name)
        if member is None:
            raise StateError(
                f"the struct has no field {name!r}",
                hint=f"its fields are {', '.join(self._node.names())}",
                pstate=self._writes.spec.name,
            )
        place = self._prefix + encode_element(name, _FIELD_NAME)
        return member, (*self._position, name), place


_HANDLES: dict[type, type[Handle]] = {Map: MapHandle, Set: SetHandle, Struct: StructHandle}


def handle_for(spec: PStateSpec, session: Session, vnode: int) -> Handle:
    """The handle of a whole PState, within one vnode.

    Args:
        spec: What the PState is.
        session: The open session of the vnode.
        vnode: The vnode, which keys are checked against.
    """
    kind = ValueHandle if spec.node.leaf else _HANDLES[type(spec.node)]
    return kind(Writes(spec, session, vnode), spec.node, (), b"")


def _replace(handle: Any, value: Any) -> None:
    """Put a whole value in place of what an element-wise handle holds."""
    if isinstance(handle, SetHandle) and isinstance(value, list | tuple | set | frozenset):
        handle.clear()
        handle.update(value)
        return
    if isinstance(handle, MapHandle | StructHandle) and isinstance(value, Mapping):
        content = dict(value.items())
        handle.clear()
        for key, item in content.items():
            handle[key] = item
        return
    raise StateError(
        f"a {type(value).__name__} cannot replace what is stored by element",
        hint="assign a dict to a map or struct, a set or list to a set",
    )
