"""Columns over the last rows of keys, for all rows of a microbatch at once.

The kept rows of each key and its new ones, one after the other, make one sequence; the last rows
of a new one are a slice of it. All slices together are the groups that an aggregate folds, as many
at a time as memory takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.aggregates.kernels.types import exact_cast, fitted
from atoll.codec.keys.elements import SIGN_BIT, encode_element
from atoll.codec.values.packing import PACKING
from atoll.engine.exchange.by_key import RowsByKey, rows_by_key
from atoll.schema import Scalar
from atoll.steps.fold.run import shown
from atoll.steps.last_rows.bind import BoundFolded, BoundLagged
from atoll.steps.last_rows.taking import takeable
from atoll.topology.rows import ORIGIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.engine.step import Work
    from atoll.steps.last_rows.bind import BoundLastRows

_INT = Scalar("int")
_NUMBER_BYTES = 9
_EXPANDED_MAX = 1_000_000
"""Rows in the slices that are folded at a time."""


@dataclass(frozen=True)
class _Kept:
    """What was kept of the keys, in their order: entries' keys, how many of each, and values."""

    keys: list[bytes]
    counts: NDArray[np.int64]
    values: list[bytes]


@dataclass(frozen=True)
class _Sequences:
    """The kept and the new rows of each key, one after the other.

    Attributes:
        items: Which row stands at each position: the kept ones first, then the new ones.
        keys: The number of the key at each position.
        starts: Where the sequence of each key begins, and at last where all end.
        kept: How many rows were kept in all.
    """

    items: NDArray[np.int64]
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    kept: int

    @property
    def new(self) -> NDArray[np.int64]:
        """The positions of new rows."""
        return np.flatnonzero(self.items >= self.kept)


def over(step: BoundLastRows, tables: list[pa.Table], work: Work) -> pa.Table:
    """The rows in their order, with the step's columns; what is kept is written.

    A careful attempt sends the rows that no total can take to ``work.refused``.
    """
    rows = pa.concat_tables(tables).combine_chunks()
    if work.refused is not None:
        rows = takeable(step, rows, lambda part: _made(step, part, work), work.refused)
        if not rows.num_rows:
            return step.emitted.empty_table()
    by_key, kept, made = _made(step, rows, work)
    _write(step, by_key, kept, rows, work)
    return _emitted(step, rows, made)


def _made(
    step: BoundLastRows, rows: pa.Table, work: Work
) -> tuple[RowsByKey, _Kept, list[pa.Array]]:
    """The step's columns, and what they are made of; nothing is written."""
    by_key = rows_by_key(step, step.elements, rows)
    kept = _read(step, by_key, work)
    sequences = _sequences(by_key, kept)
    columns = _columns(step, rows, kept)
    new = sequences.new
    numbers = sequences.items[new] - sequences.kept
    back = np.empty(len(numbers), np.int64)
    back[numbers] = np.arange(len(numbers))
    made = []
    for each in step.made:
        column = (
            _lagged(each, sequences, columns, new)
            if isinstance(each, BoundLagged)
            else _folded(step, each, sequences, columns, new)
        )
        made.append(column.take(pa.array(back)))
    return by_key, kept, made


def _read(step: BoundLastRows, rows: RowsByKey, work: Work) -> _Kept:
    keys: list[bytes] = []
    counts: list[int] = []
    values: list[bytes] = []
    for vnode, numbers in rows.slices():
        writer = work.writer(step.state, vnode)
        for entries in writer.under(rows.keys[numbers.start : numbers.stop], _NUMBER_BYTES):
            counts.append(len(entries))
            keys += [key for key, _ in entries]
            values += [value for _, value in entries]
    return _Kept(keys, np.array(counts, np.int64), values)


def _sequences(rows: RowsByKey, kept: _Kept) -> _Sequences:
    count = len(rows.keys)
    numbers = np.arange(count)
    keys = np.concatenate(
        [np.repeat(numbers, kept.counts), np.repeat(numbers, np.diff(rows.starts))]
    )
    items = np.concatenate([np.arange(len(kept.keys)), len(kept.keys) + rows.order])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.searchsorted(keys, np.arange(count + 1))
    return _Sequences(items[order], keys, starts, len(kept.keys))


def _columns(step: BoundLastRows, rows: pa.Table, kept: _Kept) -> dict[str, pa.Array]:
    """Each column that the aggregates take: of the kept rows, then of the new ones."""
    shown_before = step.codec.finish_columns(step.codec.decode_columns(kept.values))
    made = {}
    for name in step.kept_columns:
        new = rows.column(name).combine_chunks()
        old = exact_cast(pc.struct_field(shown_before, name), new.type, safe=False)
        made[name] = pa.concat_arrays([old, new])
    return made


def _lagged(
    each: BoundLagged,
    sequences: _Sequences,
    columns: dict[str, pa.Array],
    new: NDArray[np.int64],
) -> pa.Array:
    places = new - each.back
    there = places >= sequences.starts[sequences.keys[new]]
    items = sequences.items[np.where(there, places, 0)]
    return columns[each.column].take(pa.array(items, mask=~there))


def _folded(
    step: BoundLastRows,
    each: BoundFolded,
    sequences: _Sequences,
    columns: dict[str, pa.Array],
    new: NDArray[np.int64],
) -> pa.Array:
    field = each.field
    size = len(sequences.items)
    taken = [
        pa.array(np.ones(size, np.bool_)) if name is None else columns[name]
        for name in field.columns
    ]
    lows = np.maximum(sequences.starts[sequences.keys[new]], new - step.window + 1)
    parts = []
    for part in _parts(new - lows + 1):
        order, starts = _slices(lows[part], new[part])
        states = field.aggregator.fold(taken, field.node, sequences.items[order], starts)
        parts.append(shown(field, each.codec, states))
    return pa.concat_arrays(parts)


def _parts(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """The slices cut into parts of some rows in all, each of at least one slice."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _EXPANDED_MAX, "right")), start + 1)
        yield slice(start, stop)
        start = stop


def _slices(
    lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions from each low to its high, one slice after the other, and where each begins."""
    lengths = highs - lows + 1
    starts = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(lows - starts, lengths), starts


def _write(step: BoundLastRows, rows: RowsByKey, kept: _Kept, table: pa.Table, work: Work) -> None:
    """Keep the last rows of each key, and forget those before them."""
    if not step.kept:
        return
    entries: dict[int, dict[bytes, bytes | None]] = {}
    wanted: list[int] = []
    targets: list[tuple[int, bytes]] = []
    at = 0
    for number, key in enumerate(rows.keys):
        vnode, count = int(rows.vnodes[number]), int(kept.counts[number])
        known, at = kept.keys[at : at + count], at + count
        start, stop = int(rows.starts[number]), int(rows.starts[number + 1])
        follows = _number(known[-1]) + 1 if known else 0
        first = max(stop - step.kept, start)
        for place in range(first, stop):
            wanted.append(int(rows.order[place]))
            targets.append((vnode, key + encode_element(follows + place - start, _INT)))
        gone = known[: max(count + stop - start - step.kept, 0)]
        entries.setdefault(vnode, {}).update(dict.fromkeys(gone))
    for (vnode, key), value in zip(targets, _encoded(step, table, wanted), strict=True):
        entries[vnode][key] = value
    for vnode, written in entries.items():
        keys = sorted(written)
        work.writer(step.state, vnode).put_many(keys, [written[key] for key in keys])


def _encoded(step: BoundLastRows, table: pa.Table, wanted: list[int]) -> list[bytes]:
    rows = table.take(pa.array(wanted, pa.int64()))
    if not step.kept_columns:
        return step.codec.encode_columns([pa.array(np.ones(len(wanted), np.bool_))])
    nodes = {field.name: field.node for field in step.codec.fields}
    return step.codec.encode_columns(
        [
            fitted(rows.column(name).combine_chunks(), nodes[name], step.title, PACKING)
            for name in step.kept_columns
        ]
    )


def _number(key: bytes) -> int:
    """The number that a key ends with."""
    return int.from_bytes(key[-_NUMBER_BYTES + 1 :]) - SIGN_BIT


def _emitted(step: BoundLastRows, rows: pa.Table, made: list[pa.Array]) -> pa.Table:
    known = len(step.emitted) - len(made)
    arrays = [rows.column(name) for name in step.emitted.names[:known]]
    types = [field.type for field in step.emitted][known:]
    arrays += [exact_cast(array, kind) for array, kind in zip(made, types, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=step.emitted)
    if ORIGIN in rows.column_names:
        table = table.append_column(rows.schema.field(ORIGIN), rows.column(ORIGIN))
    return table
