"""The handle of a map that is stored by element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, overload

from atoll.codec.keys.elements import decode_element, encode_element, successor
from atoll.pstate.handles.base import Handle
from atoll.pstate.handles.live import ABSENT
from atoll.pstate.handles.mappings import MappingHandle


class MapHandle(MappingHandle):
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
        """The value of the key, its handle if element-wise; the default when there is nothing."""
        shape = self._shape.value
        place = self._element(key, self._node.key)
        if shape.leaf:
            found = self._read(shape, place)
            return default if found is ABSENT else found
        return self._below(shape, place) if self._anything(place) else default

    def __getitem__(self, key: Any) -> Any:
        """The value of the key (KeyError when it is missing), or its handle if element-wise."""
        shape = self._shape.value
        place = self._element(key, self._node.key)
        if not shape.leaf:
            return self._below(shape, place)
        found = self._read(shape, place)
        if found is ABSENT:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value of the key; an element-wise value is replaced as a whole."""
        self._write(self._shape.value, self._element(key, self._node.key), value)

    def __delitem__(self, key: Any) -> None:
        """Remove the key, with everything below it; KeyError when it is missing."""
        if key not in self:
            raise KeyError(key)
        self._remove(self._shape.value, self._element(key, self._node.key))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of the key; the default is put in when there is nothing."""
        if self._shape.value.leaf or default:
            if key not in self:
                self[key] = default
                if self._shape.value.leaf:
                    return default
        else:
            self._writes.live.copied(self._prefix, default)
        return self[key]

    def pop(self, key: Any, default: Any = ABSENT) -> Any:
        """Take the value of the key out; what was stored by element comes as a dict or set."""
        if key not in self:
            if default is ABSENT:
                raise KeyError(key)
            return default
        found = self[key]
        if isinstance(found, Handle):
            found = found.copy()
        del self[key]
        return found

    def popitem(self) -> tuple[Any, Any]:
        """Take the last entry in the order of keys out; KeyError when there is none."""
        for key in self.range_keys(reverse=True):
            return key, self.pop(key)
        raise KeyError("the map is empty")

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dict of the function's own, with the entries of both."""
        return {**self.copy(), **other}

    def __ror__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dict of the function's own, with the entries of both."""
        return {**other, **self.copy()}

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]  # of another type than __or__
        """Put the entries of the other in."""
        self.update(other)
        return self

    def __contains__(self, key: object) -> bool:
        """Whether there is anything under the key."""
        place = self._element(key, self._node.key)
        if self._shape.value.leaf:
            return self._writes.get(place) is not None
        return self._anything(place)

    def __iter__(self) -> Iterator[Any]:
        """The keys of this vnode in order."""
        return self.range_keys()

    def __len__(self) -> int:
        """How many keys there are in this vnode: walks over all of them, unless it is tracked."""
        known = self._writes.size(self._prefix)
        return sum(1 for _ in self) if known is None else known

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
        for key, _, _ in self._range(start, end, reverse=reverse):
            yield key

    def range_items(
        self, start: Any = None, end: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """(key, value) of a range in order, or backwards; see :meth:`range_keys`."""
        shape, writes = self._shape.value, self._writes
        unwritten: Any = None
        for key, place, stored in self._range(start, end, reverse=reverse):
            if not shape.leaf:
                yield key, self._below(shape, place)
                continue
            if unwritten is None:
                unwritten = writes.unflushed  # empty, after what the scan flushed
            is_old = unwritten or writes.unflushed is not unwritten
            data = writes.get(place) if is_old else stored
            if data is None:
                continue
            if shape.fixed:
                yield key, shape.codec.decode(data)
            else:
                yield key, writes.live.read(place, shape, data)

    def _anything(self, place: bytes) -> bool:
        return any(True for _ in self._writes.scan(place, successor(place)))

    def _range(self, start: Any, end: Any, *, reverse: bool) -> Iterator[tuple[Any, bytes, bytes]]:
        """(key, place, value) of each element; the value is a leaf's."""
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
            if single:
                yield element, key, data
            else:
                head = key[:after]
                end = successor(head)
                yield element, head, data
