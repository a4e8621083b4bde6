"""The type ``tabulate``: see the class."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.events import FieldName, number_of
from atoll.runtime.moments import NUMBER_MAX, Sum
from atoll.runtime.problems import Problem

CELLS_MAX = 10_000
_PLAIN = {str, int, float, bool}
_DECIMALS = 4
Name = Literal["average", "count", "sum", "min", "max"]


class Cell(msgspec.Struct, frozen=True):
    """What is known of one combination: how many values, and of the numbers among them the rest."""

    count: int = 0
    numbers: int = 0
    total: float = 0.0
    lost: float = 0.0
    least: float | None = None
    most: float | None = None

    def add(self, value: Any) -> Cell:
        """With one value more."""
        number = number_of(value)
        if number is None or abs(number) > NUMBER_MAX:
            return msgspec.structs.replace(self, count=self.count + 1)
        value = float(number)
        total = Sum(self.total, self.lost).add(value)
        least = value if self.least is None else min(self.least, value)
        most = value if self.most is None else max(self.most, value)
        return Cell(self.count + 1, self.numbers + 1, total.total, total.lost, least, most)

    def join(self, other: Cell) -> Cell:
        """Of the values of both."""
        total = Sum(self.total, self.lost).join(Sum(other.total, other.lost))
        return Cell(
            self.count + other.count,
            self.numbers + other.numbers,
            total.total,
            total.lost,
            min((each for each in (self.least, other.least) if each is not None), default=None),
            max((each for each in (self.most, other.most) if each is not None), default=None),
        )

    def value(self, function: Name) -> float | int | None:
        """What a function makes of it."""
        match function:
            case "count":
                return self.count
            case "sum":
                return self.total + self.lost
            case "average":
                return (self.total + self.lost) / self.numbers if self.numbers else None
        return self.least if function == "min" else self.most


class TabulateParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a tabulate.

    Args:
        dimensions: The fields whose values make a cell; a number counts with 4 decimals.
        value: The field that is tabulated.
        functions: What is computed of each cell; ``count`` counts values of any kind, the others
            take numbers.
        normalize: What ``count`` and ``sum`` are shares of when they are collected: of all
            cells, of those with the same first dimension (``row``), with the same last one
            (``column``), or, ``none``, what they are.
        passthrough: Whether events are emitted as they came.
    """

    dimensions: Annotated[tuple[FieldName, ...], msgspec.Meta(min_length=1, max_length=16)]
    value: FieldName
    functions: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=5)]
    normalize: Literal["row", "column", "total", "none"] = "total"
    passthrough: bool = True


class Tabulate(ActorType[TabulateParams]):
    """Keeps a table of a value by the values of other fields.

    Its field ``table`` is `[{dimension: ..., value: {"average": ..., ...}}, ...]`, in the order of
    the dimensions. An event that lacks the value or a dimension, or has a list or an object as a
    dimension, is in no cell. The table holds 10,000 cells; an event for one more is a failure.
    """

    name = "tabulate"
    params = TabulateParams
    stateful = True
    resettable = True
    mergeable = True
    fields = ("table",)
    modes = frozenset({"calc-local", "spark-batch", "log-batch"})
    example: ClassVar[dict[str, Any]] = {
        "dimensions": ["city", "kind"],
        "value": "amount",
        "functions": ["count", "average"],
        "normalize": "none",
    }

    def check(self, params: TabulateParams) -> Iterator[Problem]:
        """Nothing stands twice, and rows and columns are of something."""
        for name in ("dimensions", "functions"):
            values = getattr(params, name)
            if len(set(values)) < len(values):
                what = f"one of the {name} stands twice"
                yield Problem("invalid-actor", f"/{name}", what, "give each once")
        if params.value in params.dimensions:
            what = "the value is one of the dimensions"
            yield Problem("invalid-actor", "/value", what, "tabulate another field")
        if params.normalize in {"row", "column"} and len(params.dimensions) == 1:
            what = "one dimension makes no rows and columns"
            yield Problem("invalid-actor", "/normalize", what, "write 'total' or 'none'")

    def initial(self, params: TabulateParams) -> State:
        """No cell."""
        return _state({})

    def keeps(self, params: TabulateParams, field: str) -> bool:
        """Events pass unchanged, or none does."""
        return params.passthrough

    def trigger(self, params: TabulateParams, state: State, event: Event, given: Given) -> Result:
        """With one value more."""
        emitted = (event,) if params.passthrough else ()
        key = _key(params, event)
        if key is None:
            return Result(state, emitted)
        parts = state["parts"]
        at = _part_of(key)
        known = parts[at].get(key)
        if known is None and state["cells"] >= CELLS_MAX:
            return Result(state, failure=f"the table holds {CELLS_MAX} cells")
        cell = (Cell(*known) if known else Cell()).add(event[params.value])
        part = {**parts[at], key: list(msgspec.structs.astuple(cell))}
        after = {"cells": state["cells"] + (known is None), "parts": [*parts]}
        after["parts"][at] = part
        return Result(after, emitted)

    def read(self, params: TabulateParams, state: State) -> dict[str, Any]:
        """The table."""
        return {"table": list(_rows(params, _cells(state)))}

    def snapshot(self, params: TabulateParams, events: Iterable[Event]) -> State:
        """Of the values in the range; beyond 10,000 cells the first ones stay."""
        cells: dict[str, Cell] = {}
        for event in events:
            key = _key(params, event)
            if key is not None and (key in cells or len(cells) < CELLS_MAX):
                cells[key] = cells.get(key, Cell()).add(event[params.value])
        return _state(cells)

    def combine(self, params: TabulateParams, states: Sequence[State]) -> State:
        """Of the values of all parts."""
        cells: dict[str, Cell] = {}
        for state in states:
            for key, cell in _cells(state).items():
                if key in cells or len(cells) < CELLS_MAX:
                    cells[key] = cells.get(key, Cell()).join(cell)
        return _state(cells)


_PARTS = 64
"""A state is never changed in place; in parts, one event more copies a few cells, not all."""


def _part_of(key: str) -> int:
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % _PARTS


def _state(cells: dict[str, Cell]) -> State:
    parts: list[dict[str, Any]] = [{} for _ in range(_PARTS)]
    for key, cell in cells.items():
        parts[_part_of(key)][key] = list(msgspec.structs.astuple(cell))
    return {"cells": len(cells), "parts": parts}


def _cells(state: State) -> dict[str, Cell]:
    return {key: Cell(*cell) for part in state["parts"] for key, cell in part.items()}


def _key(params: TabulateParams, event: Event) -> str | None:
    """The cell of an event: its dimensions as JSON; None when it is in none."""
    if event.get(params.value) is None:
        return None
    values = [event.get(name) for name in params.dimensions]
    plain = [_rounded(each) if type(each) is float else each for each in values]
    if any(type(each) not in _PLAIN for each in plain):
        return None
    return msgspec.json.encode(plain).decode()


def _rounded(number: float) -> float | int | None:
    """With 4 decimals; a whole one as JSON's whole numbers are, so that 1.0 and 1 are one cell."""
    if not math.isfinite(number):
        return None
    rounded = round(number, _DECIMALS)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1 << 53 else rounded


def _rows(params: TabulateParams, table: dict[str, Cell]) -> Iterator[dict[str, Any]]:
    cells = {key: (tuple(json.loads(key)), cell) for key, cell in table.items()}
    totals: dict[tuple[Any, Name], float] = {}
    for at, cell in cells.values():
        for function in params.functions:
            if function in {"count", "sum"}:
                part = (_part(params, at), function)
                totals[part] = totals.get(part, 0) + (cell.value(function) or 0)
    for key in sorted(cells):
        at, cell = cells[key]
        shown = {
            function: _share(params, at, cell, function, totals) for function in params.functions
        }
        yield {**dict(zip(params.dimensions, at, strict=True)), params.value: shown}


def _share(
    params: TabulateParams,
    at: tuple[Any, ...],
    cell: Cell,
    function: Name,
    totals: dict[tuple[Any, Name], float],
) -> Any:
    value = cell.value(function)
    if params.normalize == "none" or function not in {"count", "sum"}:
        return value
    total = totals[_part(params, at), function]
    return value / total if total and value is not None else None


def _part(params: TabulateParams, at: tuple[Any, ...]) -> Any:
    """Of which cells a share is taken."""
    place = {"row": 0, "column": -1}.get(params.normalize)
    return None if place is None else (type(at[place]).__name__, at[place])
