"""Paths: where to go in a PState, step by step. Immutable, declared without reading anything.

    from atoll import path

    path.key("ann")                              # one value, None when there is none
    path.key("ann").must("books").all()          # every element below, nothing when there is none
    path.key("ann").sorted_range("a", "c")       # a part of a sorted map, as one dict
    path.map_vals().filter(">", 10)              # many values

Each step takes what the steps before it navigated to, and navigates from each of these to none,
one or several places. Whether a path fits a PState's schema is checked before anything is read.

A path can travel as JSON (:meth:`Path.to_json`, :func:`from_json`): an array of steps, each an
array of a name and its arguments. JSON knows fewer types than a key may have, so dates, instants
and decimals are texts there and bytes are base64; the schema turns them back. Functions do not
travel: what comes from outside is data.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from atoll.errors import PathError

__all__ = [
    "COMPARISONS",
    "Path",
    "Step",
    "all",
    "field",
    "filter",
    "first",
    "from_json",
    "key",
    "keys",
    "last",
    "map_vals",
    "multi_path",
    "must",
    "null_to",
    "size",
    "sorted_range",
    "sorted_range_from",
    "sorted_range_from_start",
    "sorted_range_to",
    "sorted_range_to_end",
    "stay",
]

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_PLAIN = ("all", "keys", "map_vals", "first", "last", "size")
_STEPS_MAX = 1000
_DEPTH_MAX = 32


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name and arguments.

    =============  ======================================
    name           arguments
    =============  ======================================
    key, must      the key
    field          the field's name
    sorted_range   start, end, limit, from the end
    filter         comparison, value; or a function
    null_to        the value
    multi_path     paths
    others         none
    =============  ======================================
    """

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """As a user writes it."""
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Path:
    """A sequence of steps. Every method returns a longer path and leaves this one as it is.

    Attributes:
        steps: The steps in order.
        from_outside: Whether it came as JSON, so that texts may stand for other types.
    """

    steps: tuple[Step, ...] = ()
    from_outside: bool = False

    def key(self, *keys: Any) -> Path:
        """To the value of a key of a map (or a struct's field); several keys go deeper.

        Navigates to None when the key is missing.
        """
        return self._add(*(Step("key", (key,)) for key in _some(keys, "key")))

    def must(self, *keys: Any) -> Path:
        """As :meth:`key`, but navigates nowhere when the key is missing."""
        return self._add(*(Step("must", (key,)) for key in _some(keys, "must")))

    def field(self, name: str) -> Path:
        """To a field of a struct."""
        return self._add(Step("field", (name,)))

    def all(self) -> Path:
        """To every entry of a map as (key, value), every element of a set or list."""
        return self._add(Step("all"))

    def keys(self) -> Path:
        """To every key of a map, in order."""
        return self._add(Step("keys"))

    def map_vals(self) -> Path:
        """To every value of a map, in the order of the keys."""
        return self._add(Step("map_vals"))

    def first(self) -> Path:
        """To the first of what :meth:`all` navigates to; nowhere when there is none."""
        return self._add(Step("first"))

    def last(self) -> Path:
        """To the last of what :meth:`all` navigates to; nowhere when there is none."""
        return self._add(Step("last"))

    def size(self) -> Path:
        """To the number of entries or elements; 0 when there are none."""
        return self._add(Step("size"))

    def sorted_range(self, start: Any = None, end: Any = None, limit: int | None = None) -> Path:
        """To a part of a sorted map (as one dict) or set (as one list).

        Args:
            start: The first key, included; None for the beginning.
            end: The last key, excluded; None for the end.
            limit: How many at most, counted from the start.
        """
        return self._range(start, end, limit, from_end=False)

    def sorted_range_from(self, start: Any, limit: int | None = None) -> Path:
        """To the part of a sorted map or set from a key (included) on."""
        return self._range(start, None, limit, from_end=False)

    def sorted_range_to(self, end: Any, limit: int | None = None) -> Path:
        """To the part of a sorted map or set before a key; with a limit, those nearest to it."""
        return self._range(None, end, limit, from_end=True)

    def sorted_range_from_start(self, limit: int) -> Path:
        """To the first entries of a sorted map or set."""
        return self._range(None, None, limit, from_end=False)

    def sorted_range_to_end(self, limit: int) -> Path:
        """To the last entries of a sorted map or set, in ascending order."""
        return self._range(None, None, limit, from_end=True)

    def filter(self, comparison: str | Callable[[Any], Any], *value: Any) -> Path:
        """Go on only from values for which a function, or a comparison, says yes.

        ``filter(">", 10)`` compares with a value; ``filter(lambda v: v % 2)`` calls. None
        passes no comparison but ``==`` and ``!=``.
        """
        if callable(comparison) and not value:
            return self._add(Step("filter", (comparison,)))
        if comparison in COMPARISONS and len(value) == 1:
            return self._add(Step("filter", (comparison, value[0])))
        raise PathError(
            "a filter is a function, or a comparison and a value",
            hint=f"for example filter('>', 10); the comparisons are {' '.join(COMPARISONS)}",
        )

    def null_to(self, value: Any) -> Path:
        """To this value in place of None."""
        return self._add(Step("null_to", (value,)))

    def multi_path(self, *paths: Path) -> Path:
        """To everything that each of these paths leads to from here, one after the other."""
        for each in paths:
            if not isinstance(each, Path):
                raise PathError(f"multi_path takes paths, not {each!r}")
        return self._add(Step("multi_path", paths))

    def to_json(self) -> list[Any]:
        """The path as plain data; :func:`from_json` reads it.

        Raises:
            PathError: When it holds a function, or a value of no type that a PState knows.
        """
        return [_step_to_json(step) for step in self.steps]

    def __str__(self) -> str:
        """As a user writes it."""
        return ".".join(map(str, self.steps)) or "stay()"

    def _range(self, start: Any, end: Any, limit: int | None, *, from_end: bool) -> Path:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise PathError(
                f"a limit is a whole number of entries, not {limit!r}", hint="leave it out for all"
            )
        return self._add(Step("sorted_range", (start, end, limit, from_end)))

    def _add(self, *steps: Step) -> Path:
        return Path((*self.steps, *steps), self.from_outside)


def _some(keys: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    if not keys:
        raise PathError(f"{name}() needs a key", hint=f"write {name}(k), or all() for every entry")
    return keys


_START = Path()


def stay() -> Path:
    """The path of no steps: to the whole PState."""
    return _START


key = _START.key
must = _START.must
field = _START.field
all = _START.all  # noqa: A001  # reads as path.all()
keys = _START.keys
map_vals = _START.map_vals
first = _START.first
last = _START.last
size = _START.size
sorted_range = _START.sorted_range
sorted_range_from = _START.sorted_range_from
sorted_range_to = _START.sorted_range_to
sorted_range_from_start = _START.sorted_range_from_start
sorted_range_to_end = _START.sorted_range_to_end
filter = _START.filter  # noqa: A001  # reads as path.filter(...)
null_to = _START.null_to
multi_path = _START.multi_path


# -- JSON ---------------------------------------------------------------------------------------


def _step_to_json(step: Step) -> list[Any]:
    match step:
        case Step("filter", (function,)):
            raise PathError(
                "a path with a function cannot be sent",
                hint="use a comparison: filter('>', 10), or filter the values afterwards",
                function=repr(function),
            )
        case Step("multi_path", paths):
            return ["multi_path", *(each.to_json() for each in paths)]
        case Step("sorted_range", (start, end, limit, from_end)):
            bounds = {"start": _plain(start), "end": _plain(end), "limit": limit}
            given = {name: value for name, value in bounds.items() if value is not None}
            return ["sorted_range", given | ({"from_end": True} if from_end else {})]
        case Step("filter", (comparison, value)):
            return ["filter", comparison, _plain(value)]
    return [step.name, *map(_plain, step.arguments)]


def _plain(value: Any) -> Any:
    """A value as JSON has it; the schema says what it was."""
    for kinds, plain in _PLAIN_FORMS:
        if isinstance(value, kinds):
            return plain(value)
    raise PathError(f"a {type(value).__name__} cannot be sent in a path")


_UNFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
_PLAIN_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((type(None), bool, int, str), lambda value: value),
    (float, lambda value: value if math.isfinite(value) else _UNFINITE.get(value, "NaN")),
    (bytes, lambda value: base64.b64encode(value).decode("ascii")),
    (dt.datetime, lambda value: value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"),
    (dt.date, lambda value: value.isoformat()),
    (decimal.Decimal, str),
    ((tuple, list), lambda value: [_plain(item) for item in value]),
    (Mapping, lambda value: {str(name): _plain(item) for name, item in value.items()}),
)
"""The first that fits: a bool is an int, an instant is a date."""


def from_json(data: Any) -> Path:
    """The path that :meth:`Path.to_json` wrote, or that somebody outside sends.

    Raises:
        PathError: When the data is no path.
    """
    return Path(_steps_from_json(data, 0), from_outside=True)


def _steps_from_json(data: Any, depth: int) -> tuple[Step, ...]:
    if not isinstance(data, list) or len(data) > _STEPS_MAX:
        raise PathError("a path is an array of steps", hint='for example [["key", "ann"], ["all"]]')
    if depth > _DEPTH_MAX:
        raise PathError("the path is nested too deeply", hint="write it flatter")
    path = Path()
    for number, step in enumerate(data):
        try:
            path = _step_from_json(path, step, depth)
        except PathError as error:
            raise PathError(
                error.message, hint=error.hint, **{"step": number, **error.context}
            ) from None
    return path.steps


def _step_from_json(path: Path, step: Any, depth: int) -> Path:  # by case
    match step:
        case ["key", *keys] if keys:
            return path.key(*keys)
        case ["must", *keys] if keys:
            return path.must(*keys)
        case ["field", str(name)]:
            return path.field(name)
        case [str(name)] if name in _PLAIN:
            found: Path = getattr(path, name)()
            return found
        case ["sorted_range", dict(bounds)]:
            return _range_from_json(path, bounds)
        case ["filter", str(comparison), value] if comparison in COMPARISONS:
            return path.filter(comparison, value)
        case ["null_to", value]:
            return path.null_to(value)
        case ["multi_path", *paths]:
            return path.multi_path(*(Path(_steps_from_json(each, depth + 1)) for each in paths))
    raise PathError(
        f"{step!r} is no step of a path",
        hint='a step is an array: ["key", k], ["must", k], ["field", name], ["all"], ["keys"], '
        '["map_vals"], ["first"], ["last"], ["size"], ["sorted_range", {"start": k}], '
        '["filter", ">", v], ["null_to", v] or ["multi_path", path, ...]',
    )


def _range_from_json(path: Path, bounds: dict[str, Any]) -> Path:
    unknown = bounds.keys() - {"start", "end", "limit", "from_end"}
    if unknown:
        raise PathError(
            f"sorted_range has no {min(unknown)!r}", hint="use start, end, limit and from_end"
        )
    return path._range(  # noqa: SLF001  # of this module
        bounds.get("start"),
        bounds.get("end"),
        bounds.get("limit"),
        from_end=bool(bounds.get("from_end")),
    )
