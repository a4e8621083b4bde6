"""Accumulators: rows packed for the way to the actor, and the user's function called there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.aggregates.kernels import lists
from atoll.aggregates.kernels.combine import blamed, fresh, from_columns, to_columns
from atoll.aggregates.kernels.segments import Positions, nulls
from atoll.aggregates.kernels.types import conform
from atoll.arrow_types import OPAQUE, leaf_types
from atoll.errors import StateError
from atoll.schema import List, Node, Struct

if TYPE_CHECKING:
    from atoll.aggregates.base import Packing


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One accumulator at work on a leaf of a known schema."""

    label: str
    node: Node
    rows: List
    packing: Packing
    initial: Any
    function: Callable[..., Any]
    several: bool
    """Whether it takes several expressions."""

    def lift(self, columns: Sequence[pa.Array], starts: Positions | None) -> list[pa.Array]:
        """The rows of each group as a packed list; each row a group if None."""
        values = self._values(columns)
        bounds = range(len(values) + 1) if starts is None else [*starts.tolist(), len(values)]
        pack = self.packing.pack
        packed = [pack(self.rows, values[start:end]) for start, end in pairwise(bounds)]
        return self._padded(pa.array(packed, OPAQUE))

    def no_rows(self) -> list[pa.Array]:
        """A list of no rows."""
        return self._padded(pa.array([self.packing.pack(self.rows, [])], OPAQUE))

    def reduce(self, states: Sequence[pa.Array], starts: Positions) -> list[pa.Array]:
        """The packed lists of each group as one."""
        return self._padded(lists.join_groups(states[0], starts))

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The values after the new rows; an absent one begins with the initial value."""
        currents = from_columns(old, self.node, self.packing)
        unpack = self.packing.unpack
        with blamed(self.label, "the function must take what it returns and every row's values"):
            values = [
                self._accumulated(current, unpack(self.rows, packed), partial(self._old, old, at))
                for at, (current, packed) in enumerate(
                    zip(currents, new[0].to_pylist(), strict=True)
                )
            ]
        return to_columns(values, self.node, self.packing, self.label)

    def _values(self, columns: Sequence[pa.Array]) -> list[Any]:
        """What travels of each row: the value of one expression, a dict of several."""
        item = self.rows.item
        if len(columns) == 1:
            return [conform(value, item) for value in columns[0].to_pylist()]
        assert isinstance(item, Struct), "made when it was bound"
        members = [
            [conform(value, node) for value in column.to_pylist()]
            for column, (_, node) in zip(columns, item.fields, strict=True)
        ]
        return [dict(zip(item.names(), row, strict=True)) for row in zip(*members, strict=True)]

    def _accumulated(self, current: Any, rows: list[Any], old: Callable[[], Any]) -> Any:
        value, begins = current, 0
        if not rows and _no_value(current):
            return fresh(self.initial)
        for at, row in enumerate(rows):
            given = fresh(self.initial) if _no_value(value) else value
            value = self._called(given, row)
            if value is None:
                if isinstance(given, list | dict | set):
                    self._check_begins_again(given, rows[begins:at], old)
                begins, old = at + 1, _nothing
        return value

    def _called(self, given: Any, row: Any) -> Any:
        return self.function(given, *(row.values() if self.several else (row,)))

    def _check_begins_again(self, given: Any, rows: list[Any], old: Callable[[], Any]) -> None:
        """None means to begin again, unless it is what ``list.append`` and the like return.

        ``rows`` are those since it began last, with what ``old`` gives.
        """
        value = old()
        for row in rows:
            value = self._called(fresh(self.initial) if _no_value(value) else value, row)
        if (fresh(self.initial) if _no_value(value) else value) != given:
            raise StateError(
                f"agg.{self.label} has a function that changed the {type(given).__name__} that it "
                "was given and returned None",
                hint="return the changed value; None alone begins again with the initial one",
                aggregate=self.label,
            )

    def _old(self, columns: Sequence[pa.Array], at: int) -> Any:
        """The value of one row of these columns, as it was stored."""
        return from_columns([each.slice(at, 1) for each in columns], self.node, self.packing)[0]

    def _padded(self, packed: pa.Array) -> list[pa.Array]:
        """As many columns as the leaf has."""
        rest = len(leaf_types(self.node)) - 1
        return [packed, *(nulls(len(packed), pa.null()) for _ in range(rest))]


def _nothing() -> None:
    """What there is when a function has begun again."""


def _no_value(value: Any) -> bool:
    """Whether a store would keep nothing of it: None, or a struct of nothing."""
    return value is None or (
        isinstance(value, dict) and all(member is None for member in value.values())
    )
