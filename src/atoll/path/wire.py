"""Paths as JSON: an array of steps, each an array of a name and its arguments.

JSON knows fewer types than a key may have, so dates, instants and decimals are texts there and
bytes are base64; the schema turns them back. Functions do not travel: what comes from outside
is data.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

from atoll.errors import PathError, kind_of_value
from atoll.path.path import Path
from atoll.path.steps import COMPARISONS, Step

_STEPS_MAX = 200
"""Over all paths within the path: each costs some frames of the stack where it is followed."""
_DEPTH_MAX = 32

_PLAIN = frozenset(
    {
        "after_elem",
        "all",
        "before_elem",
        "beginning",
        "delete",
        "dispense_collected",
        "end",
        "first",
        "indexed_vals",
        "keys",
        "last",
        "map_vals",
        "null_to_list",
        "null_to_set",
        "size",
        "stop",
        "void_set_elem",
    }
)
_ONE_VALUE = frozenset({"map_key", "null_to", "put_collected", "rank_of", "set", "set_elem"})
_VALUES = frozenset({"key", "must", "nth", "ranked_after", "ranked_before", "sub_map", "subset"})
_NUMBERS = {"before_index": 1, "index": 1, "sublist": 2, "top": 1}
_ONE_PATH = frozenset(
    {
        "collect",
        "collect_one",
        "filter_not_selected",
        "filter_selected",
        "filtered_list",
        "subselect",
        "transformed",
    }
)
_RANGE_FLAGS = {"from_end": False, "include_start": True, "include_end": False}


def steps_to_json(steps: tuple[Step, ...]) -> list[Any]:
    """The steps as plain data.

    Raises:
        PathError: When one holds a function, or a value of no type that a PState knows.
    """
    return [_step_to_json(step) for step in steps]


def _step_to_json(step: Step) -> list[Any]:
    if step.name == "custom" or any(map(callable, step.arguments)):
        raise PathError(
            "a path with a function cannot be sent",
            hint="use a comparison: filter('>', 10), or filter the values afterwards",
            function=repr(step.arguments[0]),
        )
    if step.name == "sorted_range":
        return ["sorted_range", _range_to_json(*step.arguments)]
    return [
        step.name,
        *(
            steps_to_json(a.steps) if isinstance(a, Path) else plain_value(a)
            for a in step.arguments
        ),
    ]


def _range_to_json(start: Any, end: Any, limit: int | None, *how: bool) -> dict[str, Any]:
    bounds = {"start": plain_value(start), "end": plain_value(end), "limit": limit}
    given = {name: value for name, value in bounds.items() if value is not None}
    flags = zip(_RANGE_FLAGS.items(), how, strict=True)
    return given | {name: flag for (name, usual), flag in flags if flag != usual}


def plain_value(value: Any) -> Any:
    """A value as JSON has it; the schema says what it was."""
    for kinds, plain in _PLAIN_FORMS:
        if isinstance(value, kinds):
            return plain(value)
    raise PathError(f"{kind_of_value(value)} cannot be sent in a path")


_UNFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_PLAIN_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((type(None), bool, int, str), lambda value: value),
    (float, lambda value: value if math.isfinite(value) else _UNFINITE.get(value, "NaN")),
    (bytes, lambda value: base64.b64encode(value).decode("ascii")),
    (dt.datetime, lambda value: value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"),
    (dt.date, lambda value: value.isoformat()),
    (decimal.Decimal, str),
    ((tuple, list), lambda value: [plain_value(item) for item in value]),
    (Mapping, lambda value: {str(name): plain_value(item) for name, item in value.items()}),
)
"""The first that fits: a bool is an int, an instant is a date."""


def from_json(data: Any) -> Path:
    """The path that ``Path.to_json`` wrote, or that somebody outside sends.

    Raises:
        PathError: When the data is no path.
    """
    return Path(_Reading().steps(data, 0), from_outside=True)


class _Reading:
    """Reads one path, with all paths within it."""

    def __init__(self) -> None:
        self._count = 0

    def steps(self, data: Any, depth: int) -> tuple[Step, ...]:
        if not isinstance(data, list):
            raise PathError(
                "a path is an array of steps", hint='for example [["key", "ann"], ["all"]]'
            )
        self._count += len(data)
        if self._count > _STEPS_MAX or depth > _DEPTH_MAX:
            raise PathError(
                "the path is too long, or nested too deeply",
                hint=f"at most {_STEPS_MAX} steps in all, {_DEPTH_MAX} paths within each other",
            )
        path = Path()
        for number, step in enumerate(data):
            try:
                path = self._step(path, step, depth)
            except PathError as error:
                raise PathError(
                    error.message, hint=error.hint, **{"step": number, **error.context}
                ) from None
        return path.steps

    def _step(self, path: Path, step: Any, depth: int) -> Path:
        match step:
            case [str(name), *arguments] if name in _BY_VALUE and _BY_VALUE[name](arguments):
                pass
            case ["sorted_range", dict(bounds)]:
                return _range_from_json(path, bounds)
            case [str(name), *parts] if _takes_paths(name, len(parts)):
                arguments = [Path(self.steps(each, depth + 1)) for each in parts]
            case _:
                raise PathError(f"{step!r} is no step of a path", hint=_HINT)
        if name in {"key", "must", "nth"} and len(arguments) > 1:
            self._count += len(arguments) - 1
            if self._count > _STEPS_MAX:
                raise PathError("the path is too long", hint=f"at most {_STEPS_MAX} steps in all")
        found: Path = getattr(path, name)(*arguments)
        return found


def _takes_paths(name: str, count: int) -> bool:
    match name:
        case "multi_path":
            return True
        case "if_path":
            return count in {2, 3}
    return name in _ONE_PATH and count == 1


def _numbers(count: int) -> Callable[[list[Any]], bool]:
    return lambda given: len(given) == count and all(type(each) is int for each in given)


_BY_VALUE: dict[str, Callable[[list[Any]], bool]] = {
    **dict.fromkeys(_PLAIN, lambda given: not given),
    **dict.fromkeys(_ONE_VALUE, lambda given: len(given) == 1),
    **dict.fromkeys(_VALUES, bool),
    **{name: _numbers(count) for name, count in _NUMBERS.items()},
    "ranked": lambda given: (
        0 < len(given) <= 2  # noqa: PLR2004
        and type(given[0]) is int
        and (given[-1] is None or type(given[-1]) is int)
    ),
    "around": lambda given: len(given) == 3 and {type(given[1]), type(given[2])} == {int},  # noqa: PLR2004
    "quantile": lambda given: len(given) == 1 and type(given[0]) in (int, float),
    "field": lambda given: len(given) == 1 and isinstance(given[0], str),
    "filter": lambda given: len(given) == 2 and given[0] in COMPARISONS,  # noqa: PLR2004
}
"""For each step that takes values: whether it takes these."""

_HINT = (
    'a step is an array: ["key", k], ["field", name], ["all"], ["filter", ">", v], '
    '["sorted_range", {"start": k}], ["multi_path", path, ...]; '
    "see the reference of paths for all of them"
)


def _range_from_json(path: Path, bounds: dict[str, Any]) -> Path:
    unknown = bounds.keys() - {"start", "end", "limit", *_RANGE_FLAGS}
    if unknown:
        raise PathError(
            f"sorted_range has no {min(unknown)!r}",
            hint="use start, end, limit, from_end, include_start and include_end",
        )
    how = tuple(bool(bounds.get(name, usual)) for name, usual in _RANGE_FLAGS.items())
    whole: Any = path
    found: Path = whole._range(bounds.get("start"), bounds.get("end"), bounds.get("limit"), how)  # noqa: SLF001
    return found
