"""Merges partial aggregates into state: one read and one write per vnode, the rest vectorised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.keys.elements import successor
from atoll.engine.exchange.keyed import VNODE, encoded_keys
from atoll.steps.folding.taking import takeable

if TYPE_CHECKING:
    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.folding.step import StoringStep
    from atoll.topology.usercode import Rejects

WriterOf = Callable[[int], "VnodeWriter"]


@dataclass(frozen=True)
class _Entries:
    """Distinct entries, sorted by vnode and key, with their reduced states."""

    keys: list[bytes]
    states: list[pa.Array]
    slices: list[tuple[int, int, int]]
    """(vnode, start, stop) in the two above."""


@dataclass(frozen=True)
class Merged:
    """The entries that were written, by vnode and key, with their values before and after."""

    keys: list[bytes]
    olds: list[bytes | None]
    values: Sequence[bytes | None]
    slices: list[tuple[int, int, int]]
    """(vnode, start, stop) in those above."""


def fold(
    step: StoringStep,
    tables: list[pa.Table],
    writer_of: WriterOf,
    rejects: Rejects | None = None,
) -> dict[int, list[bytes]]:
    """Merge the rows of ``tables`` (in row order) into the step's PState.

    Args:
        step: The step.
        tables: Its rows.
        writer_of: The open writer of a vnode.
        rejects: Where a careful attempt sends the rows that no total can take; None in others.

    Returns:
        The keys of the entries that were written, by vnode.
    """
    done = merged(step, tables, writer_of, rejects)
    return {vnode: done.keys[start:stop] for vnode, start, stop in done.slices}


def merged(
    step: StoringStep,
    tables: list[pa.Table],
    writer_of: WriterOf,
    rejects: Rejects | None = None,
) -> Merged:
    """As :func:`fold`, and what it wrote over."""
    table = _taken(step, tables, writer_of, rejects)
    if not table.num_rows:
        return Merged([], [], [], [])
    done = _computed(step, table, writer_of)
    for vnode, start, stop in done.slices:
        rows = slice(start, stop)
        writer_of(vnode).put_many(done.keys[rows], done.values[rows], done.olds[rows])
    return done


def delete_below(
    step: StoringStep,
    tables: list[pa.Table],
    writer_of: WriterOf,
    rejects: Rejects | None = None,
) -> None:
    """Delete what lies under the key of each row."""
    table = _taken(step, tables, writer_of, rejects)
    entries = _entries(step, table)
    for vnode, start, stop in entries.slices if table.num_rows else ():
        writer = writer_of(vnode)
        keys: list[bytes] = []
        olds: list[bytes | None] = []
        for collection in entries.keys[start:stop]:
            for key, value in writer.scan(collection, successor(collection)):
                keys.append(key)
                olds.append(value)
        if keys:
            writer.put_many(keys, [None] * len(keys), olds)


def _taken(
    step: StoringStep,
    tables: list[pa.Table],
    writer_of: WriterOf,
    rejects: Rejects | None,
) -> pa.Table:
    """The rows, but for those that a careful attempt finds no total to take."""
    table = pa.concat_tables(tables).combine_chunks()
    if rejects is None:
        return table
    return takeable(step, table, lambda part: _computed(step, part, writer_of), rejects)


def _computed(step: StoringStep, table: pa.Table, writer_of: WriterOf) -> Merged:
    """What the rows make of the entries; nothing is written."""
    entries = _entries(step, table)
    olds: list[bytes | None] = []
    for vnode, start, stop in entries.slices:
        olds.extend(writer_of(vnode).get_many(entries.keys[start:stop]))
    return Merged(entries.keys, olds, step.values(olds, entries.states), entries.slices)


def _entries(step: StoringStep, table: pa.Table) -> _Entries:
    vnodes = table.column(VNODE).to_numpy()
    width = len(step.elements)
    columns = [_only_chunk(table.column(index)) for index in range(1, table.num_columns)]
    keys = encoded_keys(step, columns[:width], table.num_rows)
    order = keys.sort_order()
    order = order[np.argsort(vnodes[order], kind="stable")]
    vnodes = vnodes[order]
    keys = keys.take(order)
    starts = keys.group_starts()
    indices = pa.array(order)
    states: list[pa.Array] = []
    for each, lifted in zip(step.fields, _by_field(step, columns[width:]), strict=True):
        ordered = [state.take(indices) for state in lifted]
        if len(starts) < len(order):
            ordered = each.aggregator.reduce(ordered, starts)
        states.extend(ordered)
    distinct = keys.take(starts) if len(starts) < len(order) else keys
    return _Entries(distinct.to_bytes(), states, _slices(vnodes[starts]))


def _by_field(step: StoringStep, states: list[pa.Array]) -> list[list[pa.Array]]:
    parts, at = [], 0
    for each in step.fields:
        width = each.stop - each.start
        parts.append(states[at : at + width])
        at += width
    return parts


def _slices(vnodes: np.ndarray) -> list[tuple[int, int, int]]:
    bounds = np.flatnonzero(np.diff(vnodes, prepend=-1)).tolist()
    stops = [*bounds[1:], len(vnodes)]
    return [(int(vnodes[a]), a, b) for a, b in zip(bounds, stops, strict=True)]


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
