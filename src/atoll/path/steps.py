"""What a path is made of: steps, and the mark for what is not there."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, runtime_checkable

from atoll.errors import PathError

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
TERMS = ("term", "set", "delete")
"""The steps that write. A path that writes ends in one of them."""


class _Void(enum.Enum):
    """The type of :data:`VOID`; an enum, so that a pickled one is the same object."""

    VOID = "VOID"

    def __repr__(self) -> str:
        """As it is imported."""
        return "path.VOID"


VOID: Final = _Void.VOID
"""What the function of a ``term``, or a navigator, returns to delete where it stands."""


@runtime_checkable
class Navigator(Protocol):
    """A step of a user's own: ``path.custom(navigator)``.

    It sees plain values in memory (None where there is nothing) and must not change them. Both
    methods may be called again for the same value: they must depend on nothing else.
    """

    def select(self, value: Any) -> Iterable[Any]:
        """Every value to navigate to, from this one."""

    def transform(self, value: Any, follow: Callable[[Any], Any]) -> Any:
        """The value in place of this one, or VOID to delete it.

        ``follow`` gives what the rest of the path makes of one value; VOID when it deletes it.
        """


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, as the method of a path that adds it, and its arguments in order."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """As a user writes it."""
        shown = (str(a) if isinstance(a, Steps) else repr(a) for a in self.arguments)
        return f"{self.name}({', '.join(shown)})"


class Steps:
    """What the kinds of steps have in common: each method adds steps and returns a new path."""

    __slots__ = ()

    def _add(self, *steps: Step) -> Self:
        raise NotImplementedError


def checked_paths(name: str, *paths: Any) -> tuple[Any, ...]:
    """These paths; PathError when one is none."""
    for each in paths:
        if not isinstance(each, Steps):
            raise PathError(f"{name} takes paths, not {each!r}", hint="write path.key(...)")
    return paths


def checked_keys(name: str, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """These keys; PathError when there is none."""
    if not keys:
        raise PathError(f"{name}() needs a key", hint=f"write {name}(k), or all() for every entry")
    return keys


def checked_whole(name: str, *numbers: Any) -> tuple[Any, ...]:
    """These positions in a list; PathError when one is no whole number."""
    for each in numbers:
        if type(each) is not int:
            raise PathError(
                f"{name} takes positions in a list, not {each!r}",
                hint="the first is 0, the last is -1",
            )
    return numbers


def checked_function(name: str, function: Any) -> Any:
    """This function; PathError when it cannot be called."""
    if not callable(function):
        raise PathError(f"{name} takes a function, not {function!r}", hint="for example len")
    return function
