"""What the steps over values in memory have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from atoll.errors import PathError
from atoll.path import Step

SETS = (set, frozenset)

Follow = Callable[[Any], Any]
"""What the rest of a path makes of one value; VOID when it deletes it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of step reads and changes a value. Values themselves are never changed.

    Attributes:
        select: Every value that the step leads to from a value.
        change: The value in place of one, its rest followed by a function; VOID deletes it.
    """

    select: Callable[[Any, Step], Iterable[Any]]
    change: Callable[[Any, Step, Follow], Any]


def misfit(value: Any, step: Step) -> PathError:
    """The error of a step at a value that has no such thing."""
    return PathError(
        f"{step} met a value of type {type(value).__name__}", hint="see the PState's schema"
    )


def as_map(value: Any, step: Step) -> dict[Any, Any]:
    """The map that a value is; None is an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise misfit(value, step)


def as_list(value: Any, step: Step) -> list[Any]:
    """A new list of a list's elements (or of a pair's); None is an empty one."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    raise misfit(value, step)


def as_set(value: Any, step: Step) -> Any:
    """The set that a value is; None is an empty one."""
    if value is None:
        return frozenset()
    if isinstance(value, SETS):
        return value
    raise misfit(value, step)


def rebuilt(like: Any, items: list[Any]) -> Any:
    """The items as what they were taken from: a tuple or a list."""
    return tuple(items) if isinstance(like, tuple) else items
