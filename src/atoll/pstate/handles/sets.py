"""The handle of a set that is stored by element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any

from atoll.codec.keys.elements import decode_element, encode_element
from atoll.pstate.handles.base import Handle


class SetHandle(Handle, MutableSet[Any]):
    """A stored set, sorted: works as a set."""

    __slots__ = ()

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        """What ``|``, ``&``, ``-`` and ``^`` give: a set of the function's own."""
        return set(it)

    def add(self, element: Any) -> None:
        """Put the element in."""
        self._writes.unflushed[self._element(element, self._node.item)] = b""

    def update(self, *others: Iterable[Any]) -> None:
        """Put all of these in."""
        for elements in others:
            for element in list(elements):
                self.add(element)

    def discard(self, element: Any) -> None:
        """Take the element out, if it is in."""
        place = self._element(element, self._node.item)
        if self._writes.get(place) is not None:
            self._writes.unflushed[place] = None

    def clear(self) -> None:
        """Take everything out."""
        Handle.clear(self)

    def difference_update(self, *others: Iterable[Any]) -> None:
        """Take all of these out."""
        for elements in others:
            for element in list(elements):
                self.discard(element)

    def intersection_update(self, *others: Iterable[Any]) -> None:
        """Take out what is not in all of these."""
        self.difference_update(set(self) - set(self).intersection(*others))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        """Take out what is in both, put in what is only in the other."""
        theirs, both = set(other), set(self).intersection(other)
        self.difference_update(both)
        self.update(theirs - both)

    def union(self, *others: Iterable[Any]) -> set[Any]:
        """A set of the function's own."""
        return set(self).union(*others)

    def intersection(self, *others: Iterable[Any]) -> set[Any]:
        """A set of the function's own."""
        return set(self).intersection(*others)

    def difference(self, *others: Iterable[Any]) -> set[Any]:
        """A set of the function's own."""
        return set(self).difference(*others)

    def symmetric_difference(self, other: Iterable[Any]) -> set[Any]:
        """A set of the function's own."""
        return set(self).symmetric_difference(other)

    def issubset(self, other: Iterable[Any]) -> bool:
        """Whether the other has every element."""
        return set(self).issubset(other)

    def issuperset(self, other: Iterable[Any]) -> bool:
        """Whether every element of the other is in."""
        return set(self).issuperset(other)

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

    def _fill(self, value: Any) -> None:
        if not isinstance(value, list | tuple | set | frozenset):
            self._cannot_replace(value)
        elements = list(value)
        self.clear()
        self.update(elements)
