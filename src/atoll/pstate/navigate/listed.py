"""Steps into lists in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atoll.errors import PathError
from atoll.path import VOID, Step
from atoll.pstate.navigate.kinds import Follow, Kind, as_list, rebuilt


def _position(items: list[Any], index: int) -> int | None:
    """The position counted from the start; None when there is no element there."""
    at = index + len(items) if index < 0 else index
    return at if 0 <= at < len(items) else None


def _select_nth(value: Any, step: Step) -> Iterable[Any]:
    items = as_list(value, step)
    at = _position(items, step.arguments[0])
    return () if at is None else (items[at],)


def _change_nth(value: Any, step: Step, follow: Follow) -> Any:
    items = as_list(value, step)
    at = _position(items, step.arguments[0])
    if at is None:
        return value
    new = follow(items[at])
    items[at : at + 1] = [] if new is VOID else [new]
    return rebuilt(value, items)


def _select_index(value: Any, step: Step) -> Iterable[Any]:
    at = _position(as_list(value, step), step.arguments[0])
    return () if at is None else (at,)


def _change_index(value: Any, step: Step, follow: Follow) -> Any:
    items = as_list(value, step)
    at = _position(items, step.arguments[0])
    if at is None:
        return value
    _move(items, at, follow(at))
    return rebuilt(value, items)


def _move(items: list[Any], at: int, to: Any) -> None:
    """Move an element to another position, or delete it; those between move by one."""
    if to is VOID:
        del items[at]
        return
    if type(to) is not int or not 0 <= to < len(items):
        raise PathError(
            f"position {at} became {to!r}", hint=f"the list has {len(items)} elements, from 0"
        )
    items.insert(to, items.pop(at))


def _select_indexed(value: Any, step: Step) -> Iterable[Any]:
    return tuple(enumerate(as_list(value, step)))


def _change_indexed(value: Any, step: Step, follow: Follow) -> Any:
    """Every element once, in the order in which they stood; each at where it stands by then."""
    items = [[item] for item in as_list(value, step)]
    for each in tuple(items):
        at = next(i for i, other in enumerate(items) if other is each)
        new = follow((at, each[0]))
        if new is VOID:
            del items[at]
            continue
        if not (isinstance(new, list | tuple) and len(new) == 2):  # noqa: PLR2004
            raise PathError(f"an indexed value became {new!r}", hint="return (position, value)")
        to, each[0] = new
        _move(items, at, to)
    return rebuilt(value, [item for (item,) in items])


def _bounds(items: list[Any], step: Step) -> slice:
    start, end = step.arguments
    if step.name == "sublist_dynamic":
        start, end = start(items), end(items)
    start, end, _ = slice(start, end).indices(len(items))
    return slice(start, max(start, end))


def _select_sublist(value: Any, step: Step) -> Iterable[Any]:
    items = as_list(value, step)
    return (items[_bounds(items, step)],)


def _change_sublist(value: Any, step: Step, follow: Follow) -> Any:
    items = as_list(value, step)
    return _with_part(items, _bounds(items, step), step, follow)


def _with_part(items: list[Any], part: slice, step: Step, follow: Follow) -> Any:
    new = follow(items[part])
    items[part] = [] if new is VOID else as_list(new, step)
    return items


def _select_beside(value: Any, step: Step) -> Iterable[Any]:
    as_list(value, step)
    return ()


def _change_beside(value: Any, step: Step, follow: Follow) -> Any:
    items = as_list(value, step)
    at = {"before_elem": 0, "after_elem": len(items)}.get(step.name)
    if at is None:
        (at,) = step.arguments
        at = max(0, at + len(items)) if at < 0 else at
        if at > len(items):
            raise PathError(
                f"{step} met a list of {len(items)} elements", hint="after_elem() puts it last"
            )
    new = follow(None)
    if new is not VOID:
        items.insert(at, new)
    return items


def _select_edge(value: Any, step: Step) -> Iterable[Any]:
    as_list(value, step)
    return ([],)


def _change_edge(value: Any, step: Step, follow: Follow) -> Any:
    items = as_list(value, step)
    at = 0 if step.name == "beginning" else len(items)
    return _with_part(items, slice(at, at), step, follow)


_BESIDE = Kind(_select_beside, _change_beside)
_EDGE = Kind(_select_edge, _change_edge)
_SUBLIST = Kind(_select_sublist, _change_sublist)
LISTED = {
    "nth": Kind(_select_nth, _change_nth),
    "index": Kind(_select_index, _change_index),
    "indexed_vals": Kind(_select_indexed, _change_indexed),
    "sublist": _SUBLIST,
    "sublist_dynamic": _SUBLIST,
    "before_elem": _BESIDE,
    "after_elem": _BESIDE,
    "before_index": _BESIDE,
    "beginning": _EDGE,
    "end": _EDGE,
}
