"""Remembering what was made of an object that can be no key of a dict, such as params.

The object itself is kept beside what was made of it, so its identity cannot become another's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class ByIdentity(Generic[V]):
    """A function that is called once per object, while that is not changed.

    Args:
        make: The function.
        most: How many objects are remembered; then all are forgotten, and made again when asked.
    """

    def __init__(self, make: Callable[[Any], V], most: int = 1_024) -> None:
        """Nothing was made."""
        self._make = make
        self._most = most
        self._made: dict[int, tuple[Any, V]] = {}

    def __call__(self, of: Any) -> V:
        """What the function makes of the object."""
        known = self._made.get(id(of))
        if known is not None:
            return known[1]
        made = self._make(of)
        if len(self._made) >= self._most:
            self._made.clear()
        self._made[id(of)] = of, made
        return made
