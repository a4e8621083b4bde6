"""Sets as they are read: their elements in stored order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self


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
