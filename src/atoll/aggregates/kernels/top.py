"""The top rows of groups: a sieve over whole columns, then a sort of the few that are left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.order import order_codes
from atoll.aggregates.kernels.segments import Positions, present_rows, taken
from atoll.aggregates.kernels.types import fitted
from atoll.arrow_types import OPAQUE
from atoll.schema import List, Node, Scalar, Struct

if TYPE_CHECKING:
    from atoll.aggregates.base import Packing
    from atoll.aggregates.rows.top import TopN


_ORDER, _VALUE = itemgetter(0), itemgetter(1)

Entry = tuple[Any, Any]
"""The order of a row, and what is shown of it."""


class Ranking:
    """One ``top_n`` at work on a list of a known schema."""

    def __init__(
        self, declared: TopN, node: Node, kind: str, shown: Sequence[Node], packing: Packing
    ) -> None:
        assert isinstance(node, List), "checked when it was bound"
        self._declared = declared
        self._item = node.item
        self._order = Scalar(kind, optional=True)
        self._shown = shown
        self._packing = packing
        self._packed = List(Struct(order=self._order, value=node.item))
        self._fields = node.item.names() if isinstance(node.item, Struct) else ()
        plain = packing.plain
        self._plain = plain if plain and plain.sort(self._order) and plain.sort(node.item) else None

    # --- the three steps ------------------------------------------------------------------

    def lift(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Packed lists of one entry, of none where the order is null."""
        entries = self._entries(columns)
        return self._column([] if order is None else [(order, v)] for order, v in entries)

    def reduce(self, states: pa.Array, starts: Positions) -> pa.Array:
        """The top entries of each group of packed lists."""
        lists = states.to_pylist()
        bounds = [*starts.tolist(), len(lists)]
        return pa.array([self._joined(lists[a:b]) for a, b in pairwise(bounds)], OPAQUE)

    def merge(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """The top entries of each pair of packed lists."""
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return pa.array([self._joined(pair) for pair in pairs], OPAQUE)

    def fold(self, columns: Sequence[pa.Array], order: Positions, starts: Positions) -> pa.Array:
        """The top entries of each group of rows."""
        counts = np.diff(starts, append=len(order))
        rows, groups = self._sieve(columns, order, np.repeat(np.arange(len(starts)), counts))
        kept = [taken(column, rows) for column in columns]
        bounds = np.searchsorted(groups, np.arange(len(starts) + 1)).tolist()
        if self._plain is not None and self._simple:
            plain = self._plain_entries(kept)
            with contextlib.suppress(TypeError):  # nulls have no order of their own
                tops = [self._plain_top(plain[start:end]) for start, end in pairwise(bounds)]
                return pa.array([self._plain.encode(top) for top in tops], OPAQUE)
        entries = self._entries(kept)
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
        if declared.shown.names and self._fields != declared.shown.names:  # as packed ones are
            values = [{name: value[name] for name in self._fields} for value in values]
        return list(zip(orders, values, strict=True))

    # --- packed lists ---------------------------------------------------------------------

    def _joined(self, packed: Sequence[bytes | None]) -> bytes:
        """The top of several lists, each of which is a top already, in arrival order."""
        held = [each for each in packed if each is not None]
        if len(held) == 1:
            return held[0]
        if self._plain is not None:
            entries = [entry for each in held for entry in self._plain.decode(each)]
            with contextlib.suppress(TypeError, IndexError):  # nulls, or damage: the long way
                return self._plain.encode(self._plain_top(entries))
        return self._pack(self._top([entry for each in held for entry in self._unpacked(each)]))

    @property
    def _simple(self) -> bool:
        """Whether all that is shown are columns of plain forms."""
        return all(isinstance(each, Scalar) and each.kind != "tuple" for each in self._shown)

    def _plain_entries(self, columns: Sequence[pa.Array]) -> list[Any]:
        """As :meth:`_entries`, in plain forms."""
        declared = self._declared
        nodes = (self._order, *self._shown)
        orders, *shown = (
            _plain_column(fitted(column, node, declared, None), node)
            for column, node in zip(columns, nodes, strict=True)
        )
        if declared.shown.alone:
            return list(zip(orders, shown[0], strict=True))
        if declared.shown.names:
            shown = [shown[declared.shown.names.index(name)] for name in self._fields]
        return list(zip(orders, zip(*shown, strict=True), strict=True))

    def _plain_top(self, entries: list[Any]) -> list[Any]:
        """As :meth:`_top`, of plain forms: pairs as lists, structs as lists."""
        declared = self._declared
        if declared.id_place is not None:
            place, shown = declared.id_place, declared.shown
            if not shown.alone:
                place = self._fields.index(shown.names[place]) if shown.names else place
            entries = list({(e[1] if shown.alone else e[1][place]): e for e in entries}.values())
        entries.sort(key=_VALUE)
        entries.sort(key=_ORDER, reverse=declared.descending)
        end = declared.count
        if declared.with_ties and end < len(entries):
            last = entries[end - 1][0]
            while end < len(entries) and entries[end][0] == last:
                end += 1
        return entries[:end]

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
        return pa.array([self._pack(entries) for entries in lists], OPAQUE)

    def _pack(self, entries: list[Entry]) -> bytes:
        pairs = [{"order": order, "value": value} for order, value in entries]
        return self._packing.pack(self._packed, pairs)


def _plain_column(column: pa.Array, node: Node) -> list[Any]:
    """The plain forms of a column, null as None."""
    kind = node.kind if isinstance(node, Scalar) else ""
    integer = {"datetime": pa.int64(), "date": pa.int32(), "bool": pa.int8()}.get(kind)
    values: list[Any] = (column if integer is None else column.cast(integer)).to_pylist()
    return values


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
