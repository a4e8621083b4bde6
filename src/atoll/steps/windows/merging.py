"""Merges rows into sessions: windows of one key that overlap become one.

What comes is a row, from its time until the gap after it, or rows of one task that are one session
already. Sessions are found by key: a PState holds each state by keys, start and end, and an index
beside it holds end, start and keys, in the order in which sessions close.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.keys.elements import EMPTY_KEY, decode_element, successor
from atoll.engine.exchange.keyed import VNODE, encoded_keys
from atoll.steps.windows.bound import TIMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.windows.bound import TimedStep

WriterOf = Callable[[str, int], "VnodeWriter"]


@dataclass
class _Session:
    """A stretch of time of one key, by its encoded start and end."""

    start: bytes
    end: bytes
    olds: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    """Stored sessions that it takes in: start, end and state."""
    rows: list[int] = field(default_factory=list)

    def take(self, other: _Session) -> None:
        """Take in a session that begins later."""
        self.end = max(self.end, other.end)
        self.olds += other.olds
        self.rows += other.rows


@dataclass
class _Writes:
    """What is written to one vnode: the index's keys, and the states'."""

    index: dict[bytes, bytes | None] = field(default_factory=dict)
    states: dict[bytes, int | None] = field(default_factory=dict)
    """To the number of the merged session; None deletes."""


def merge(step: TimedStep, tables: list[pa.Table], writer_of: WriterOf) -> dict[int, list[bytes]]:
    """Merge rows (in their order) into the sessions of their keys.

    Returns:
        The index keys of the sessions that were written, by vnode.
    """
    assert step.sessions is not None
    table = pa.concat_tables(tables).combine_chunks()
    rows = _by_key(step, table)
    made: list[_Session] = []
    writes: dict[int, _Writes] = defaultdict(_Writes)
    for (vnode, keys), fresh in sorted(rows.items()):
        stored = _stored(writer_of(step.sessions, vnode), keys)
        for session in _merged([*stored, *fresh]):
            if session.rows:
                _note(writes[vnode], keys, session, len(made))
                made.append(session)
    values = _values(step, table, made)
    written: dict[int, list[bytes]] = {}
    for vnode, each in sorted(writes.items()):
        index = sorted(each.index.items())
        if step.pstate != step.sessions:
            writer_of(step.pstate, vnode).put_many(
                [key for key, _ in index], [value for _, value in index]
            )
        states = sorted(each.states.items())
        writer_of(step.sessions, vnode).put_many(
            [key for key, _ in states], [None if n is None else values[n] for _, n in states]
        )
        written[vnode] = [key for key, value in index if value is not None]
    return written


def state_key(index_key: bytes) -> bytes:
    """Where the state of an indexed session is: keys, start, end."""
    end = decode_element(index_key, 0)[1]
    start = decode_element(index_key, end)[1]
    return index_key[start:] + index_key[end:start] + index_key[:end]


def _by_key(step: TimedStep, table: pa.Table) -> dict[tuple[int, bytes], list[_Session]]:
    """Each row as a session of its own, by vnode and key, in the order of the rows."""
    width = len(step.elements)
    columns = [table.column(index).combine_chunks() for index in range(1, 1 + width)]
    ends = encoded_keys(step, columns[:1], table.num_rows).to_bytes()
    starts = encoded_keys(step, columns[1:2], table.num_rows, 1).to_bytes()
    keys = [b""] * table.num_rows
    if width > TIMES:
        keys = encoded_keys(step, columns[TIMES:], table.num_rows, TIMES).to_bytes()
    found: dict[tuple[int, bytes], list[_Session]] = defaultdict(list)
    vnodes = table.column(VNODE).to_pylist()
    for row, (vnode, key, start, end) in enumerate(zip(vnodes, keys, starts, ends, strict=True)):
        found[vnode, key].append(_Session(start, end, rows=[row]))
    return found


def _stored(states: VnodeWriter, keys: bytes) -> list[_Session]:
    """The sessions of a key that are kept."""
    assert keys != EMPTY_KEY
    found = []
    bounds = (keys, successor(keys)) if keys else (None, None)
    for key, state in states.scan(*bounds):
        at = decode_element(key, len(keys))[1]
        start, end = key[len(keys) : at], key[at:]
        found.append(_Session(start, end, olds=[(start, end, state)]))
    return found


def _merged(sessions: list[_Session]) -> list[_Session]:
    """Those that overlap as one; encoded times sort as the times do."""
    made: list[_Session] = []
    for each in sorted(sessions, key=lambda one: one.start):
        if made and each.start < made[-1].end:
            made[-1].take(each)
        else:
            made.append(each)
    for each in made:
        each.rows.sort()
    return made


def _note(writes: _Writes, keys: bytes, session: _Session, number: int) -> None:
    for start, end, _ in session.olds:
        writes.index[end + start + keys] = None
        writes.states[keys + start + end] = None
    writes.index[session.end + session.start + keys] = b""
    writes.states[keys + session.start + session.end] = number


def _values(step: TimedStep, table: pa.Table, made: Sequence[_Session]) -> Sequence[bytes]:
    """The states of merged sessions: of the stored ones by their start, then of the rows."""
    assert step.codec is not None
    width = 1 + len(step.elements)
    olds = [state for session in made for _, _, state in session.olds]
    known = step.codec.decode_columns(olds)
    lifted = [table.column(index).combine_chunks() for index in range(width, table.num_columns)]
    order: list[int] = []
    starts: list[int] = []
    old = 0
    for session in made:
        starts.append(len(order))
        order += range(old, old + len(session.olds))
        old += len(session.olds)
        order += [len(olds) + row for row in session.rows]
    columns = step.codec.decode_columns([None] * len(made))
    indices = pa.array(order, pa.int64())
    for each in step.fields:
        parts = range(each.start, each.stop)
        states = [pa.concat_arrays([known[i], lifted[i].cast(known[i].type)]) for i in parts]
        ordered = [state.take(indices) for state in states]
        reduced = each.aggregator.reduce(ordered, np.array(starts))
        columns[each.start : each.stop] = each.aggregator.merge(
            columns[each.start : each.stop], reduced
        )
    return step.codec.encode_columns(columns)
