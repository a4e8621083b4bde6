"""Steps into lists: by position, counted from the end when negative, as everywhere in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from atoll.path.steps import (
    Step,
    Steps,
    checked_function,
    checked_keys,
    checked_paths,
    checked_whole,
)


class ListedSteps(Steps):
    """Elements, positions and parts of lists. None is an empty list."""

    __slots__ = ()

    def nth(self, *indexes: int) -> Self:
        """To the element at a position, nowhere when there is none; several go deeper."""
        checked = checked_whole("nth", *checked_keys("nth", indexes))
        return self._add(*(Step("nth", (index,)) for index in checked))

    def index(self, index: int) -> Self:
        """To a position itself, nowhere when there is none.

        A transform moves the element to the new position, and those between by one.
        """
        return self._add(Step("index", checked_whole("index", index)))

    def indexed_vals(self) -> Self:
        """To every element as (position, element). A transform may change and move each.

        Positions are those that the moves before have led to.
        """
        return self._add(Step("indexed_vals"))

    def sublist(self, start: int, end: int) -> Self:
        """To the part from ``start`` (included) to ``end`` (excluded), cut as Python's slices.

        A transform puts the list that it makes, of any length, in the place of that part.
        """
        return self._add(Step("sublist", checked_whole("sublist", start, end)))

    def sublist_dynamic(
        self, start: Callable[[list[Any]], int], end: Callable[[list[Any]], int]
    ) -> Self:
        """As :meth:`sublist`, the bounds computed from the list by two functions."""
        functions = (checked_function("sublist_dynamic", each) for each in (start, end))
        return self._add(Step("sublist_dynamic", tuple(functions)))

    def filtered_list(self, path: Any) -> Self:
        """To the list of the elements from which a path leads anywhere.

        A transform puts the elements of the list that it makes back to their places, one by
        one; where it is shorter the remaining ones are deleted.
        """
        return self._add(Step("filtered_list", checked_paths("filtered_list", path)))

    def before_elem(self) -> Self:
        """Nowhere in a read; in a transform to None, and what becomes of it is put first."""
        return self._add(Step("before_elem"))

    def after_elem(self) -> Self:
        """Nowhere in a read; in a transform to None, and what becomes of it is put last."""
        return self._add(Step("after_elem"))

    def before_index(self, index: int) -> Self:
        """Nowhere in a read; in a transform to None, and what becomes of it is put there."""
        return self._add(Step("before_index", checked_whole("before_index", index)))

    def beginning(self) -> Self:
        """To the empty list before the first element: ``.set([1, 2])`` puts several first."""
        return self._add(Step("beginning"))

    def end(self) -> Self:
        """To the empty list behind the last element: ``.set([1, 2])`` puts several last."""
        return self._add(Step("end"))
