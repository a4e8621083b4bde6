"""Steps into maps and sets in memory: by key, by element, by range."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atoll.errors import PathError
from atoll.path import VOID, Step
from atoll.pstate.navigate.kinds import (
    SETS,
    Follow,
    Kind,
    as_map,
    as_set,
    misfit,
    rebuilt,
)
from atoll.pstate.navigate.ordered import SortedSet


def _select_key(value: Any, step: Step) -> Iterable[Any]:
    return (as_map(value, step).get(step.arguments[0]),)


def _change_key(value: Any, step: Step, follow: Follow) -> Any:
    found, (key,) = dict(as_map(value, step)), step.arguments
    _put(found, key, follow(found.get(key)))
    return found


def _select_must(value: Any, step: Step) -> Iterable[Any]:
    found, (key,) = as_map(value, step), step.arguments
    return (found[key],) if key in found else ()


def _change_must(value: Any, step: Step, follow: Follow) -> Any:
    if step.arguments[0] not in as_map(value, step):
        return value
    return _change_key(value, step, follow)


def _put(found: dict[Any, Any], key: Any, value: Any) -> None:
    if value is VOID:
        found.pop(key, None)
    else:
        found[key] = value


def _select_map_vals(value: Any, step: Step) -> Iterable[Any]:
    return tuple(as_map(value, step).values())


def _change_map_vals(value: Any, step: Step, follow: Follow) -> Any:
    if value is None:
        return None
    changed = {key: follow(item) for key, item in as_map(value, step).items()}
    return {key: item for key, item in changed.items() if item is not VOID}


def _select_keys(value: Any, step: Step) -> Iterable[Any]:
    return tuple(as_map(value, step))


def _change_keys(value: Any, step: Step, follow: Follow) -> Any:
    if value is None:
        return None
    renamed: dict[Any, Any] = {}
    for key, item in as_map(value, step).items():
        _put_new(renamed, follow(key), item)
    return renamed


def _put_new(found: dict[Any, Any], key: Any, value: Any) -> None:
    if key is not VOID:
        found[key] = value


def _select_map_key(value: Any, step: Step) -> Iterable[Any]:
    return step.arguments if step.arguments[0] in as_map(value, step) else ()


def _change_map_key(value: Any, step: Step, follow: Follow) -> Any:
    found, (key,) = dict(as_map(value, step)), step.arguments
    if key not in found:
        return value
    item = found.pop(key)
    _put_new(found, follow(key), item)
    return found


def _select_sub_map(value: Any, step: Step) -> Iterable[Any]:
    return (_part_of_map(as_map(value, step), step.arguments),)


def _part_of_map(found: dict[Any, Any], keys: Iterable[Any]) -> dict[Any, Any]:
    wanted = set(keys)
    return {key: item for key, item in found.items() if key in wanted}


def _change_sub_map(value: Any, step: Step, follow: Follow) -> Any:
    found = as_map(value, step)
    return _merged(found, _part_of_map(found, step.arguments), step, follow)


def _merged(found: dict[Any, Any], part: dict[Any, Any], step: Step, follow: Follow) -> Any:
    """The map with what becomes of a part of it in that part's place."""
    new = follow(part)
    rest = {key: item for key, item in found.items() if key not in part}
    return rest | (_mapping(new, step) if new is not VOID else {})


def _mapping(value: Any, step: Step) -> dict[Any, Any]:
    if isinstance(value, dict) or value is None:
        return value or {}
    raise PathError(f"a part of a map became a {type(value).__name__}", hint=f"at {step}")


# -- all kinds of collections ---------------------------------------------------------------------


def _items(value: Any, step: Step) -> tuple[Any, ...]:
    if isinstance(value, dict):
        return tuple(value.items())
    if value is None or isinstance(value, list | tuple | set | frozenset):
        return tuple(value or ())
    raise misfit(value, step)


def _change_all(value: Any, step: Step, follow: Follow) -> Any:
    if value is None:
        return None
    return _from_items(value, [follow(item) for item in _items(value, step)])


def _from_items(value: Any, items: list[Any]) -> Any:
    """A collection of the kind of ``value`` of these items, without the deleted ones."""
    kept = [item for item in items if item is not VOID]
    if isinstance(value, dict):
        for item in kept:
            if not (isinstance(item, list | tuple) and len(item) == 2):  # noqa: PLR2004
                raise PathError(f"an entry of a map became {item!r}", hint="return (key, value)")
        return dict(kept)
    return SortedSet(kept) if isinstance(value, SETS) else rebuilt(value, kept)


def _select_first(value: Any, step: Step) -> Iterable[Any]:
    return _items(value, step)[:1]


def _select_last(value: Any, step: Step) -> Iterable[Any]:
    return _items(value, step)[-1:]


def _change_end(value: Any, step: Step, follow: Follow) -> Any:
    items = list(_items(value, step))
    if not items:
        return value
    at = 0 if step.name == "first" else -1
    items[at] = follow(items[at])
    return _from_items(value, items)


def _select_size(value: Any, step: Step) -> Iterable[Any]:
    return (len(_items(value, step)),)


def _read_only(value: Any, step: Step, follow: Follow) -> Any:  # noqa: ARG001
    raise PathError(f"{step} cannot be written", hint="write the elements themselves")


# -- ranges ---------------------------------------------------------------------------------------


def _select_range(value: Any, step: Step) -> Iterable[Any]:
    inside = _inside(value, step)
    return ({key: value[key] for key in inside} if isinstance(value, dict) else inside,)


def _inside(value: Any, step: Step) -> list[Any]:
    """The keys, or elements, of the range in order."""
    start, end, limit, from_end, include_start, include_end = step.arguments
    if not isinstance(value, dict | set | frozenset | list | tuple | None):
        raise misfit(value, step)
    inside = [
        element
        for element in _in_order(value or ())
        if (start is None or start < element or (include_start and element == start))
        and (end is None or element < end or (include_end and element == end))
    ]
    if limit is not None:
        inside = inside[max(0, len(inside) - limit) :] if from_end else inside[:limit]
    return inside


def _in_order(elements: Iterable[Any]) -> list[Any]:
    """Sorted, or as they are when they have no order among them (None among others)."""
    try:
        return sorted(elements)
    except TypeError:
        return list(elements)


def _ordered_set(elements: Iterable[Any]) -> SortedSet:
    return SortedSet(_in_order(elements))


def _change_range(value: Any, step: Step, follow: Follow) -> Any:
    inside = _inside(value, step)
    if isinstance(value, SETS):
        new = follow(inside)
        return _ordered_set((value - set(inside)) | set(() if new is VOID else new or ()))
    found = as_map(value, step)
    return _merged(found, {key: found[key] for key in inside}, step, follow)


# -- sets -----------------------------------------------------------------------------------------


def _select_element(value: Any, step: Step) -> Iterable[Any]:
    return step.arguments if step.arguments[0] in as_set(value, step) else ()


def _change_element(value: Any, step: Step, follow: Follow) -> Any:
    found, (element,) = as_set(value, step), step.arguments
    if element not in found:
        return value
    new = follow(element)
    return _ordered_set((found - {element}) | (set() if new is VOID else {new}))


def _select_nothing(value: Any, step: Step) -> Iterable[Any]:  # noqa: ARG001
    return ()


def _change_void_element(value: Any, step: Step, follow: Follow) -> Any:
    new = follow(None)
    return value if new is VOID else _ordered_set(as_set(value, step) | {new})


def _select_subset(value: Any, step: Step) -> Iterable[Any]:
    wanted = set(step.arguments)
    return (SortedSet(e for e in as_set(value, step) if e in wanted),)


def _change_subset(value: Any, step: Step, follow: Follow) -> Any:
    (part,) = _select_subset(value, step)
    new = follow(part)
    return _ordered_set((as_set(value, step) - part) | set(() if new is VOID else new or ()))


def _select_ranked(value: Any, step: Step) -> Iterable[Any]:  # noqa: ARG001
    raise PathError(
        f"{step} met a part of a map or set in memory, which has no ranks",
        hint="take the ranks first: path.top(3), then what each entry needs",
    )


KEYED = {
    "key": Kind(_select_key, _change_key),
    "field": Kind(_select_key, _change_key),
    "must": Kind(_select_must, _change_must),
    "map_vals": Kind(_select_map_vals, _change_map_vals),
    "keys": Kind(_select_keys, _change_keys),
    "map_key": Kind(_select_map_key, _change_map_key),
    "sub_map": Kind(_select_sub_map, _change_sub_map),
    "all": Kind(_items, _change_all),
    "first": Kind(_select_first, _change_end),
    "last": Kind(_select_last, _change_end),
    "size": Kind(_select_size, _read_only),
    "sorted_range": Kind(_select_range, _change_range),
    **dict.fromkeys(
        ("ranked", "rank_of", "around", "quantile", "ranked_before", "ranked_after"),
        Kind(_select_ranked, _read_only),
    ),
    "set_elem": Kind(_select_element, _change_element),
    "void_set_elem": Kind(_select_nothing, _change_void_element),
    "subset": Kind(_select_subset, _change_subset),
}
