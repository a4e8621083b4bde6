"""Steps into maps, sets and structs."""

from __future__ import annotations

from typing import Any, Self

from atoll.errors import PathError
from atoll.path.steps import Step, Steps, checked_keys


class KeyedSteps(Steps):
    """By key, element, field or range of keys. In transforms None is an empty map or set."""

    __slots__ = ()

    def key(self, *keys: Any) -> Self:
        """To the value of a key of a map (or a struct's field); several keys go deeper.

        Navigates to None when the key is missing.
        """
        return self._add(*(Step("key", (key,)) for key in checked_keys("key", keys)))

    def must(self, *keys: Any) -> Self:
        """As :meth:`key`, but navigates nowhere when the key is missing."""
        return self._add(*(Step("must", (key,)) for key in checked_keys("must", keys)))

    def field(self, name: str) -> Self:
        """To a field of a struct."""
        return self._add(Step("field", (name,)))

    def all(self) -> Self:
        """To every entry of a map as (key, value), every element of a set or list."""
        return self._add(Step("all"))

    def keys(self) -> Self:
        """To every key of a map, in order. A transform renames them."""
        return self._add(Step("keys"))

    def map_vals(self) -> Self:
        """To every value of a map, in the order of the keys."""
        return self._add(Step("map_vals"))

    def map_key(self, key: Any) -> Self:
        """To a key itself, nowhere when it is missing. A transform renames it."""
        return self._add(Step("map_key", (key,)))

    def sub_map(self, *keys: Any) -> Self:
        """To the part of a map with these keys, as one dict; missing ones are left out.

        A transform puts the dict that it makes in the place of that part.
        """
        return self._add(Step("sub_map", keys))

    def set_elem(self, element: Any) -> Self:
        """To an element of a set, nowhere when it is not in. A transform replaces it."""
        return self._add(Step("set_elem", (element,)))

    def void_set_elem(self) -> Self:
        """Nowhere in a read; in a transform to None, and what becomes of it is added."""
        return self._add(Step("void_set_elem"))

    def subset(self, *elements: Any) -> Self:
        """To the part of a set with these elements, as one set; missing ones are left out.

        A transform puts the set that it makes in the place of that part.
        """
        return self._add(Step("subset", elements))

    def first(self) -> Self:
        """To the first of what :meth:`all` navigates to; nowhere when there is none."""
        return self._add(Step("first"))

    def last(self) -> Self:
        """To the last of what :meth:`all` navigates to; nowhere when there is none."""
        return self._add(Step("last"))

    def size(self) -> Self:
        """To the number of entries or elements; 0 when there are none. Reads only."""
        return self._add(Step("size"))

    def sorted_range(
        self,
        start: Any = None,
        end: Any = None,
        limit: int | None = None,
        *,
        include_start: bool = True,
        include_end: bool = False,
    ) -> Self:
        """To a part of a sorted map (as one dict) or set (as one list).

        A transform puts the dict, or the elements, that it makes in the place of that part.

        Args:
            start: Where it begins, ``start`` itself taken in; None for the first key.
            end: Where it ends, ``end`` itself left out; None for behind the last key.
            limit: How many at most, counted from the start.
            include_start: False leaves ``start`` itself out.
            include_end: True takes ``end`` itself in.
        """
        return self._range(start, end, limit, (False, include_start, include_end))

    def sorted_range_from(
        self, start: Any, limit: int | None = None, *, include_start: bool = True
    ) -> Self:
        """To the part of a sorted map or set from a key on; with a limit those nearest to it."""
        return self._range(start, None, limit, (False, include_start, False))

    def sorted_range_to(
        self, end: Any, limit: int | None = None, *, include_end: bool = False
    ) -> Self:
        """To the part of a sorted map or set before a key; with a limit, those nearest to it."""
        return self._range(None, end, limit, (True, True, include_end))

    def sorted_range_from_start(self, limit: int) -> Self:
        """To the first entries of a sorted map or set."""
        return self._range(None, None, limit, (False, True, False))

    def sorted_range_to_end(self, limit: int) -> Self:
        """To the last entries of a sorted map or set, in ascending order."""
        return self._range(None, None, limit, (True, True, False))

    def _range(self, start: Any, end: Any, limit: int | None, how: tuple[bool, bool, bool]) -> Self:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise PathError(
                f"a limit is a whole number of entries, not {limit!r}", hint="leave it out for all"
            )
        return self._add(Step("sorted_range", (start, end, limit, *how)))
