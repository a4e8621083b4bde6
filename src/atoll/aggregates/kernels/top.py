"""The top rows of groups: a sieve over whole columns, then a sort of the few that are left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.order import order_codes
from atoll.aggregates.kernels.segments import Positions, present_rows, taken
from atoll.aggregates.kernels.types import OPAQUE, fitted
from atoll.schema import List, Node, Scalar, Struct

if TYPE_CHECKING:
    from atoll.aggregates.base import Packing
    from atoll.aggregates.top import TopN

__all__ = ["Ranking"]

Entry = tuple[Any, Any]
"""The order of a row, and what is shown of it."""


class Ranking:
    """One ``top_n`` at work on a list of a known schema."""

    def __init__(
        self, declared: TopN, node: Node, kind: str, shown: Sequence[Node], packing: Packing
    ) -> None:
        """Compute what every call needs."""
        assert isinstance(node, List), "checked when it was bound"
        self._declared = declared
        self._item = node.item
        self._order = Scalar(kind, optional=True)
        self._shown = shown
        self._packing = packing
        self._packed = List(Struct(order=self._order, value=node.item))

    # --- the three steps ------------------------------------------------------------------

    def lift(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Packed lists of one entry, of none where the order is null."""
        entries = self._entries(columns)
        return self._column([] if order is None else [(order, v)] for order, v in entries)

    def reduce(self, states: pa.Array, starts: Positions) -> pa.Array:
        """The top entries of each group of packed lists."""
        lists = states.to_pylist()
        bounds = [*starts.tolist(), len(lists)]
        return self._column(
            self._top(entry for packed in lists[start:end] for entry in self._unpacked(packed))
            for start, end in pairwise(bounds)
        )

    def merge(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """The top entries of each pair of packed lists."""
        return self._column(
            self._top([*self._unpacked(before), *self._unpacked(after)])
            for before, after in zip(old.to_pylist(), new.to_pylist(), strict=True)
        )

    def fold(self, columns: Sequence[pa.Array], order: Positions, starts: Positions) -> pa.Array:
        """The top entries of each group of rows."""
        counts = np.diff(starts, append=len(order))
        rows, groups = self._sieve(columns, order, np.repeat(np.arange(len(starts)), counts))
        entries = self._entries([taken(column, rows) for column in columns])
        bounds = np.searchsorted(groups, np.arange(len(starts) + 1)).tolist()
        return self._column(self._top(entries[start:end]) for start, end in pairwise(bounds))

    # --- whole columns --------------------------------------------------------------------

    def _sieve(
        self, columns: Sequence[pa.Array], rows: Positions, groups: Positions
    ) -> tuple[Positions, Positions]:
        """The rows that may be among the top of their group, by group and then by arrival."""
        by = columns[0]
        codes = order_codes(by)
        if by.null_count:
            held = present_rows(by)[rows]
            rows, groups = rows[held], groups[held]
        if self._declared.id_place is not None:
            rows, groups = _latest(columns[1 + self._declared.id_place], rows, groups)
        ranks = ~codes[rows] if self._declared.descending else codes[rows]
        ordered = np.lexsort((ranks, groups))
        ordered_groups = groups[ordered]
        first = np.searchsorted(ordered_groups, ordered_groups)
        last = np.searchsorted(ordered_groups, ordered_groups, side="right") - 1
        worst = ranks[ordered][np.minimum(first + self._declared.count - 1, last)]
        kept = np.sort(ordered[ranks[ordered] <= worst])  # rows are by group, then by arrival
        return rows[kept], groups[kept]

    def _entries(self, columns: Sequence[pa.Array]) -> list[Entry]:
        declared = self._declared
        orders = fitted(columns[0], self._order, declared, None).to_pylist()
        values = declared.shown.rows(columns[1:], self._shown, declared)
        return list(zip(orders, values, strict=True))

    # --- entries --------------------------------------------------------------------------

    def _top(self, entries: Iterable[Entry]) -> list[Entry]:
        declared = self._declared
        if declared.id_place is not None:
            latest: dict[Any, Entry] = {}
            for entry in entries:
                latest[_sort_key(self._id_of(entry[1], declared.id_place))] = entry
            entries = latest.values()
        by_content = sorted(entries, key=lambda entry: _sort_key(entry[1]))
        by_content.sort(key=lambda entry: _sort_key(entry[0]), reverse=declared.descending)
        return by_content[: self._end(by_content)]

    def _end(self, ranked: Sequence[Entry]) -> int:
        """How many of the sorted entries are the top."""
        end = self._declared.count
        if self._declared.with_ties and end < len(ranked):
            last = _sort_key(ranked[end - 1][0])
            while end < len(ranked) and _sort_key(ranked[end][0]) == last:
                end += 1
        return end

    def _id_of(self, value: Any, place: int) -> Any:
        shown = self._declared.shown
        if shown.alone:
            return value
        return value[shown.names[place] if shown.names else place]

    def _unpacked(self, packed: bytes | None) -> list[Entry]:
        if packed is None:
            return []
        pairs = self._packing.unpack(self._packed, packed)
        return [(pair["order"], pair["value"]) for pair in pairs]

    def _column(self, lists: Iterable[list[Entry]]) -> pa.Array:
        pack, node = self._packing.pack, self._packed
        return pa.array(
            [pack(node, [{"order": o, "value": v} for o, v in entries]) for entries in lists],
            OPAQUE,
        )


def _latest(ids: pa.Array, rows: Positions, groups: Positions) -> tuple[Positions, Positions]:
    """The last row of each id in each group; ``rows`` are by group, then by arrival."""
    keys: list[NDArray[np.int64]] = [
        present_rows(ids).astype(np.int64)[rows],
        order_codes(ids)[rows],
        groups,
    ]
    keys[1] = np.where(keys[0], keys[1], 0)
    ordered = np.lexsort(keys)
    final = np.ones(len(ordered), np.bool_)
    if len(ordered) > 1:
        changed = np.zeros(len(ordered) - 1, np.bool_)
        for key in keys:
            in_order = key[ordered]
            changed |= in_order[1:] != in_order[:-1]
        final[:-1] = changed
    kept = np.sort(ordered[final])
    return rows[kept], groups[kept]


def _sort_key(value: Any) -> Any:
    """A key that orders and equates values of one schema: None least, NaN greatest."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if value != value else (1, value)  # noqa: PLR0124 - true of NaN alone
    if isinstance(value, dict):
        return (1, tuple(_sort_key(member) for member in value.values()))
    if isinstance(value, list | tuple):
        return (1, tuple(_sort_key(member) for member in value))
    return (1, value)
