"""Merges partial aggregates into state: one read and one write per vnode, the rest vectorised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.keys.elements import successor
from atoll.engine.exchange.packing import VNODE, encoded_keys
from atoll.engine.program import AggregateTerminal
from atoll.steps.aggregate.taking import takeable

if TYPE_CHECKING:
    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.windows.terminals import WindowTerminal
    from atoll.topology.usercode import Rejects

__all__ = ["Merged", "SessionOf", "fold", "merged"]

SessionOf = Callable[[int], "VnodeWriter"]


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
    terminal: AggregateTerminal | WindowTerminal,
    tables: list[pa.Table],
    session_of: SessionOf,
    rejects: Rejects | None = None,
) -> dict[int, list[bytes]]:
    """Merge the rows of ``tables`` (in row order) into the terminal's PState.

    Args:
        terminal: The step.
        tables: Its rows.
        session_of: The open session of a vnode.
        rejects: Where a careful attempt sends the rows that no total can take; None in others.

    Returns:
        The keys of the entries that were written, by vnode.
    """
    done = merged(terminal, tables, session_of, rejects)
    return {vnode: done.keys[start:stop] for vnode, start, stop in done.slices}


def merged(
    terminal: AggregateTerminal | WindowTerminal,
    tables: list[pa.Table],
    session_of: SessionOf,
    rejects: Rejects | None = None,
) -> Merged:
    """As :func:`fold`, and what it wrote over."""
    table = pa.concat_tables(tables).combine_chunks()
    if rejects is not None:
        table = takeable(
            terminal, table, lambda part: _computed(terminal, part, session_of), rejects
        )
        if not table.num_rows:
            return Merged([], [], [], [])
    if isinstance(terminal, AggregateTerminal) and terminal.deletes == "all below":
        return _deleted_below(_entries(terminal, table), session_of)
    done = _computed(terminal, table, session_of)
    for vnode, start, stop in done.slices:
        rows = slice(start, stop)
        session_of(vnode).put_many(done.keys[rows], done.values[rows], done.olds[rows])
    return done


def _computed(
    terminal: AggregateTerminal | WindowTerminal, table: pa.Table, session_of: SessionOf
) -> Merged:
    """What the rows make of the entries; nothing is written."""
    entries = _entries(terminal, table)
    olds: list[bytes | None] = []
    for vnode, start, stop in entries.slices:
        olds.extend(session_of(vnode).get_many(entries.keys[start:stop]))
    return Merged(entries.keys, olds, _merged(terminal, olds, entries), entries.slices)


def _deleted_below(entries: _Entries, session_of: SessionOf) -> Merged:
    """Delete what lies under each key."""
    keys: list[bytes] = []
    olds: list[bytes | None] = []
    slices = []
    for vnode, start, stop in entries.slices:
        first = len(keys)
        for collection in entries.keys[start:stop]:
            for key, value in session_of(vnode).scan(collection, successor(collection)):
                keys.append(key)
                olds.append(value)
        if len(keys) > first:
            gone = [None] * (len(keys) - first)
            session_of(vnode).put_many(keys[first:], gone, olds[first:])
            slices.append((vnode, first, len(keys)))
    return Merged(keys, olds, [None] * len(keys), slices)


def _entries(terminal: AggregateTerminal | WindowTerminal, table: pa.Table) -> _Entries:
    vnodes = table.column(VNODE).to_numpy()
    width = len(terminal.elements)
    columns = [_only_chunk(table.column(index)) for index in range(1, table.num_columns)]
    keys = encoded_keys(terminal, columns[:width], table.num_rows)
    order = keys.sort_order()
    order = order[np.argsort(vnodes[order], kind="stable")]
    vnodes = vnodes[order]
    keys = keys.take(order)
    starts = keys.group_starts()
    indices = pa.array(order)
    states: list[pa.Array] = []
    for each, lifted in zip(terminal.fields, _by_field(terminal, columns[width:]), strict=True):
        ordered = [state.take(indices) for state in lifted]
        if len(starts) < len(order):
            ordered = each.aggregator.reduce(ordered, starts)
        states.extend(ordered)
    distinct = keys.take(starts) if len(starts) < len(order) else keys
    return _Entries(distinct.to_bytes(), states, _slices(vnodes[starts]))


def _by_field(
    terminal: AggregateTerminal | WindowTerminal, states: list[pa.Array]
) -> list[list[pa.Array]]:
    parts, at = [], 0
    for each in terminal.fields:
        width = each.stop - each.start
        parts.append(states[at : at + width])
        at += width
    return parts


def _slices(vnodes: np.ndarray) -> list[tuple[int, int, int]]:
    bounds = np.flatnonzero(np.diff(vnodes, prepend=-1)).tolist()
    stops = [*bounds[1:], len(vnodes)]
    return [(int(vnodes[a]), a, b) for a, b in zip(bounds, stops, strict=True)]


def _merged(
    terminal: AggregateTerminal | WindowTerminal, olds: list[bytes | None], entries: _Entries
) -> Sequence[bytes | None]:
    """The entries' new values; None deletes."""
    known = olds
    if isinstance(terminal, AggregateTerminal):
        if terminal.deletes == "entry":
            return [None] * len(entries.keys)
        if terminal.codec is None:  # elements of a set: being there is all
            if not terminal.fields:
                return [b""] * len(entries.keys)
            return [None if removed else b"" for removed in entries.states[0].to_pylist()]
        if terminal.initial is not None:
            known = [terminal.initial if old is None else old for old in olds]
    assert terminal.codec is not None
    columns = terminal.codec.decode_columns(known)
    at = 0
    for each in terminal.fields:
        width = each.stop - each.start
        new = entries.states[at : at + width]
        columns[each.start : each.stop] = each.aggregator.merge(
            columns[each.start : each.stop], new
        )
        at += width
    return terminal.codec.encode_columns(columns)


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
