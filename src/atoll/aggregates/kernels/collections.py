"""Sets and maps in one value: their elements as keys are encoded, sorted, and states below them.

A set is packed as the list of its elements, a map as the list of its keys with the bytes of their
states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from atoll.aggregates.kernels.segments import Positions, present_rows, taken
from atoll.aggregates.kernels.types import exact_cast
from atoll.arrow_types import OPAQUE, arrow_type

if TYPE_CHECKING:
    from atoll.aggregates.base import Aggregator, EncodedKeys, LeafForm, Packing
    from atoll.aggregates.finish import Unpacking
    from atoll.schema import Node, Scalar


def groups_of(starts: Positions, rows: int) -> Positions:
    """For each of so many rows in group order the number of its group."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=rows))


def keyed_rows(keys: pa.Array) -> tuple[Positions, pa.Array]:
    """The rows that have a key, and their keys."""
    rows = np.flatnonzero(present_rows(keys))
    return rows, taken(keys, rows)


def entries_of_maps(maps: pa.MapArray) -> tuple[Positions, pa.Array, pa.Array]:
    """For each entry of maps its row, its key and its value; null has none."""
    rows = np.flatnonzero(present_rows(maps))
    offsets = maps.offsets.to_numpy()
    lengths = np.diff(offsets)[rows]
    at = np.repeat(offsets[:-1][rows], lengths) + _counted(lengths)
    return np.repeat(rows, lengths), taken(maps.keys, at), taken(maps.items, at)


def _counted(lengths: Positions) -> Positions:
    """From 0 up, anew for each length."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)


def map_type(key: Scalar, below: LeafForm) -> pa.DataType:
    """The type of maps to what states below show."""
    return pa.map_(arrow_type(key), below.value_arrow_type)


def shown_maps(states: pa.Array, key: Scalar, below: LeafForm, unpacking: Unpacking) -> pa.MapArray:
    """The maps that a column of keys and states holds."""
    flat, offsets = _held(states, unpacking)
    keys = unpacking.elements([each for each, _ in flat], key)
    values = below.finish_columns(below.decode_columns([inside for _, inside in flat]))
    return pa.MapArray.from_arrays(offsets, keys, values)


def shown_sets(states: pa.Array, element: Scalar, unpacking: Unpacking) -> pa.ListArray:
    """The elements that each row of a column of them holds."""
    flat, offsets = _held(states, unpacking)
    return pa.ListArray.from_arrays(offsets, unpacking.elements(flat, element))


def _held(states: pa.Array, unpacking: Unpacking) -> tuple[list[Any], pa.Array]:
    """What all rows hold, one after the other, and where each begins; null where there is none."""
    held = [None if data is None else unpacking.plain(data) for data in states.to_pylist()]
    ends = np.cumsum([0, *(0 if each is None else len(each) for each in held)])
    mask = np.array([each is None for each in held] + [False])
    flat = [entry for each in held for entry in each or ()]
    return flat, pa.array(ends.astype(np.int32), mask=mask)


def sets(
    column: pa.Array, groups: Positions, count: int, element: Scalar, packing: Packing
) -> pa.Array:
    """The distinct values of each of so many groups, packed; nulls are left out."""
    rows, values = keyed_rows(column)
    found = _distinct(_encoded(values, element, packing), groups[rows], count)
    codes = found.codes
    return _packed((codes[start:end] for start, end in pairwise(found.bounds)), packing)


def united(states: pa.Array, starts: Positions, packing: Packing) -> pa.Array:
    """The sets of each group as one."""
    held = _unpacked(states, packing)
    bounds = [*starts.tolist(), len(held)]
    unions = (set().union(*held[start:end]) for start, end in pairwise(bounds))
    return _packed(map(sorted, unions), packing)


def either(old: pa.Array, new: pa.Array, packing: Packing) -> pa.Array:
    """Row by row both sets as one; what is not there is empty."""
    pairs = zip(_unpacked(old, packing), _unpacked(new, packing), strict=True)
    return _packed((sorted({*mine, *theirs}) for mine, theirs in pairs), packing)


@dataclass(frozen=True, slots=True)
class Maps:
    """One aggregate below the keys of a map."""

    inner: Aggregator
    key: Scalar
    node: Node
    form: LeafForm
    packing: Packing

    def folded(
        self, keys: pa.Array, inputs: Sequence[pa.Array], groups: Positions, count: int
    ) -> pa.Array:
        """The entries of each of so many groups, folded by key."""
        if not len(keys):
            return self._rows([], [], [0] * (count + 1))
        found = _distinct(_encoded(keys, self.key, self.packing), groups, count)
        states = self.inner.fold(inputs, self.node, found.order, found.starts)
        return self._rows(found.codes, self.form.encode_columns(states), found.bounds)

    def reduced(self, states: pa.Array, starts: Positions) -> pa.Array:
        """The entries of the maps of each group, reduced by key."""
        held = _unpacked(states, self.packing)
        groups = np.searchsorted(starts, np.arange(len(held)), side="right") - 1
        entries = [
            (group, code, state)
            for group, entries in zip(groups.tolist(), held, strict=True)
            for code, state in entries
        ]
        entries.sort(key=lambda entry: entry[:2])
        owners = [entry[:2] for entry in entries]
        firsts = [at for at, each in enumerate(owners) if not at or each != owners[at - 1]]
        parts = [state for _, _, state in entries]
        if len(firsts) < len(parts):
            columns = self.form.decode_columns(parts)
            parts = self.form.encode_columns(self.inner.reduce(columns, np.array(firsts)))
        bounds = np.searchsorted([owners[at][0] for at in firsts], np.arange(len(starts) + 1))
        return self._rows([owners[at][1] for at in firsts], parts, bounds.tolist())

    def merged(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """Row by row the old entries, with those that come merged into them."""
        news = _unpacked(new, self.packing)
        if old.null_count == len(old):
            return self._first(news)
        olds = [dict(entries) for entries in _unpacked(old, self.packing)]
        pairs = zip(olds, news, strict=True)
        flat = [(held, code, state) for held, each in pairs for code, state in each]
        if flat:
            before = self.form.decode_columns([held.get(code) for held, code, _ in flat])
            states = self.form.decode_columns([state for _, _, state in flat])
            merged = self.form.encode_columns(self.inner.merge(before, states))
            for (held, code, _), state in zip(flat, merged, strict=True):
                held[code] = state
        return _packed((sorted(held.items()) for held in olds), self.packing)

    def _first(self, maps: Sequence[Any]) -> pa.Array:
        """The entries of maps that come on top of nothing."""
        bounds = np.cumsum([0, *map(len, maps)]).tolist()
        entries = [entry for each in maps for entry in each]
        if not entries:
            return self._rows([], [], bounds)
        states = self.form.decode_columns([state for _, state in entries])
        nothing = self.form.decode_columns([None] * len(entries))
        merged = self.form.encode_columns(self.inner.merge(nothing, states))
        return self._rows([code for code, _ in entries], merged, bounds)

    def _rows(self, codes: Sequence[bytes], states: Sequence[bytes], bounds: list[int]) -> pa.Array:
        entries = list(zip(codes, states, strict=True))
        return _packed((entries[start:end] for start, end in pairwise(bounds)), self.packing)


@dataclass(frozen=True, slots=True)
class _Distinct:
    """Rows by group and element, in their order within both."""

    order: Positions
    starts: Positions
    """Where each distinct element of a group begins."""
    codes: list[bytes]
    """Each of those elements."""
    bounds: list[int]
    """For each group where its elements begin, and where the last one's end."""


def _distinct(keys: EncodedKeys, groups: Positions, count: int) -> _Distinct:
    order = keys.sort_order()
    order = order[np.argsort(groups[order], kind="stable")]
    ordered = keys.take(order)
    owners = groups[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = owners[1:] != owners[:-1]
    begins[ordered.group_starts()] = True
    starts = np.flatnonzero(begins)
    codes = ordered.take(starts).to_bytes()
    bounds = np.searchsorted(owners[starts], np.arange(count + 1))
    return _Distinct(order, starts, codes, bounds.tolist())


def _encoded(values: pa.Array, kind: Scalar, packing: Packing) -> EncodedKeys:
    assert packing.keys is not None
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return packing.keys(exact_cast(values, arrow_type(kind)), kind)


def _packed(collections: Iterable[Any], packing: Packing) -> pa.Array:
    assert packing.plain is not None
    return pa.array([packing.plain.encode(each) for each in collections], OPAQUE)


def _unpacked(states: pa.Array, packing: Packing) -> list[Any]:
    assert packing.plain is not None
    decode = packing.plain.decode
    return [() if data is None else decode(data) for data in states.to_pylist()]
