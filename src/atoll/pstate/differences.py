"""How one value became another: differences at sub-paths, and putting them onto a value.

A path's elements are keys of maps, names of struct fields and elements of sets, from the value
that is compared downwards; ``()`` is that value itself. Lists differ in one run of elements, which
is *spliced*: what was appended, inserted, cut out or replaced. Everything else that differs is
replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from atoll.pstate.navigate.kinds import SETS

Kind = Literal["added", "changed", "removed", "spliced"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which two values differ.

    Attributes:
        path: Where, from the value compared downwards.
        kind: ``added`` and ``removed``: a key of a map or an element of a set; ``changed``: the
            value there is another one; ``spliced``: a run of a list's elements is another one.
        old: What stood there; None when nothing did. Of a splice the elements cut out.
        new: What stands there; None when nothing does. Of a splice the elements put in. For an
            element of a set that is there, ``True``.
        index: Of a splice the position of its first element; else None.
    """

    path: tuple[Any, ...]
    kind: Kind
    old: Any = None
    new: Any = None
    index: int | None = None


def between(old: Any, new: Any, path: tuple[Any, ...] = ()) -> Iterator[Difference]:
    """The differences that turn a value into another; none when they are equal.

    Removals come before additions, and no order among them matters.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _between_maps(old, new, path)
    elif isinstance(old, SETS) and isinstance(new, SETS):
        for element in old:
            if element not in new:
                yield Difference((*path, element), "removed", old=True)
        for element in new:
            if element not in old:
                yield Difference((*path, element), "added", new=True)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _between_lists(old, new, path)
    elif type(old) is not type(new) or old != new:
        yield Difference(path, "changed", old, new)


def _between_maps(
    old: dict[Any, Any], new: dict[Any, Any], path: tuple[Any, ...]
) -> Iterator[Difference]:
    for key, value in old.items():
        if key not in new:
            yield Difference((*path, key), "removed", old=value)
    for key, value in new.items():
        if key in old:
            yield from between(old[key], value, (*path, key))
        else:
            yield Difference((*path, key), "added", new=value)


def _between_lists(old: list[Any], new: list[Any], path: tuple[Any, ...]) -> Iterator[Difference]:
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    same = 0
    while same < shorter - start and old[-1 - same] == new[-1 - same]:
        same += 1
    cut, put = old[start : len(old) - same], new[start : len(new) - same]
    if cut or put:
        yield Difference(path, "spliced", cut, put, start)


def applied(value: Any, differences: Iterable[Difference]) -> Any:
    """The value after these differences.

    Args:
        value: None, or what this function returned before: it is changed in place where it can
            be, and must not be used any more.
        differences: From :func:`between`, or of a subscription's change.
    """
    holder = {"": value}
    for each in differences:
        _apply(holder, ("", *each.path), each)
    return holder[""]


def _apply(holder: dict[Any, Any], path: tuple[Any, ...], difference: Difference) -> None:
    container = holder
    for element in path[:-1]:
        container = container[element]
    last = path[-1]
    if isinstance(container, set):
        (container.add if difference.kind == "added" else container.discard)(last)
    elif difference.kind == "spliced":
        assert difference.index is not None
        end = difference.index + len(difference.old)
        container[last][difference.index : end] = owned(difference.new)
    elif difference.kind == "removed" and len(path) > 1:
        del container[last]
    else:
        container[last] = owned(difference.new)


def owned(value: Any) -> Any:
    """A copy of a value whose dicts, lists and sets can be changed, at any depth."""
    if isinstance(value, dict):
        return {key: owned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [owned(item) for item in value]
    if isinstance(value, SETS):
        return set(value)
    return value
