"""Lets rows pass of which no other with the same key did within a time; forgets the others' keys.

A row passes when the times of all rows of its key that passed are that far from its own, before
or after it. What has passed at ``p`` matters while a row may still come within that time of it:
rows before ``now`` do not come any more, so that ``p`` is forgotten when ``now`` is as far away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.keys.columns import encode_columns
from atoll.codec.keys.elements import encode_element
from atoll.codec.scalars import INT64_MIN
from atoll.engine.exchange.by_key import RowsByKey, rows_by_key
from atoll.schema import Scalar
from atoll.steps.forgetting import TIME_BYTES, due_ms, time_of
from atoll.steps.windows.event_time import event_millis
from atoll.topology.rows import ORIGIN
from atoll.topology.times import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.engine.step import Work
    from atoll.steps.deduplicate.bind import BoundDeduplicate

_INT = Scalar("int")


@dataclass
class _Change:
    """What is written to one vnode: keys that passed, with their times, and those forgotten."""

    passed: list[tuple[bytes, int]] = field(default_factory=list)
    gone: list[bytes] = field(default_factory=list)
    """Entries of the PState of times."""
    next_ms: int = NEVER
    """The first time that is left."""


def passing(
    step: BoundDeduplicate, tables: list[pa.Table], work: Work
) -> tuple[pa.Table, dict[int, int]]:
    """The rows that pass, in their order; for each vnode when there is something to forget."""
    now = work.times.of(step.clock)
    changes: dict[int, _Change] = {}
    due = work.due(step.times) if step.times is not None else set()
    rows = pa.concat_tables(tables).combine_chunks() if tables else None
    passes: list[int] = []
    if rows is not None:
        by_key = rows_by_key(step, step.elements, rows)
        millis = _millis(step, rows, now)
        for vnode, numbers in by_key.slices():
            changes[vnode] = _Change()
            passes += _passing(step, by_key, numbers, millis, work, changes[vnode])
    for vnode in sorted({*changes, *due}):
        change = changes.setdefault(vnode, _Change())
        if step.times is not None:
            _forget(step, vnode, now, work, change)
        _write(step, vnode, work, change)
    agenda = {} if step.times is None else {v: _due_ms(step, each) for v, each in changes.items()}
    return _emitted(step, rows, sorted(passes)), agenda


def _millis(step: BoundDeduplicate, rows: pa.Table, now: int | None) -> NDArray[np.int64]:
    """The time of each row."""
    if step.column is None:
        return np.full(rows.num_rows, now or 0, np.int64)
    millis, _ = event_millis(rows.column(step.column))
    return millis


def _passing(
    step: BoundDeduplicate,
    rows: RowsByKey,
    numbers: range,
    millis: NDArray[np.int64],
    work: Work,
    change: _Change,
) -> list[int]:
    """The rows of one vnode that pass; the change is told of them."""
    writer = work.writer(step.passed, int(rows.vnodes[numbers.start]))
    keys = rows.keys[numbers.start : numbers.stop]
    positions: list[int] = []
    if step.within_ms is None:
        known = writer.get_many(keys)
        for number, key, seen in zip(numbers, keys, known, strict=True):
            if seen is None:
                positions.append(int(rows.order[rows.starts[number]]))
                change.passed.append((key, 0))
        return positions
    stored = writer.under(keys, TIME_BYTES)
    for number, key, entries in zip(numbers, keys, stored, strict=True):
        times = [time_of(entry[-TIME_BYTES:]) for entry, _ in entries]
        for place in rows.order[rows.starts[number] : rows.starts[number + 1]].tolist():
            at = int(millis[place])
            if all(abs(at - time) >= step.within_ms for time in times):
                times.append(at)
                positions.append(place)
                change.passed.append((key, at))
    return positions


def _forget(
    step: BoundDeduplicate, vnode: int, now: int | None, work: Work, change: _Change
) -> None:
    """Find what no row can come near to any more, and the first time that is left."""
    assert step.within_ms is not None
    writer = work.writer(str(step.times), vnode)
    bound = None
    if now is not None:
        bound = encode_element(max(now - step.within_ms + 1, INT64_MIN), _INT)
        change.gone = [key for key, _ in writer.scan(None, bound)]
    left = next((time_of(key) for key, _ in writer.scan(bound)), NEVER)
    change.next_ms = min([left, *(at for _, at in change.passed)])


def _write(step: BoundDeduplicate, vnode: int, work: Work, change: _Change) -> None:
    """Write both PStates of a vnode, each at once."""
    if step.times is None:
        _put(work, step.passed, vnode, {key: b"" for key, _ in change.passed})
        return
    times = encode_columns([pa.array([at for _, at in change.passed], pa.int64())], [_INT])
    ends = times.to_bytes() if change.passed else []
    passed: dict[bytes, bytes | None] = {_turned(key): None for key in change.gone}
    index: dict[bytes, bytes | None] = dict.fromkeys(change.gone)
    for (key, _), end in zip(change.passed, ends, strict=True):
        passed[key + end] = b""
        index[end + key] = b""
    _put(work, step.passed, vnode, passed)
    _put(work, step.times, vnode, index)


def _put(work: Work, pstate: str, vnode: int, entries: dict[bytes, bytes | None]) -> None:
    keys = sorted(entries)
    work.writer(pstate, vnode).put_many(keys, [entries[key] for key in keys])


def _due_ms(step: BoundDeduplicate, change: _Change) -> int:
    """When there is something to forget that is worth it."""
    assert step.within_ms is not None
    first = NEVER if change.next_ms == NEVER else change.next_ms + step.within_ms
    return due_ms(first, step.within_ms)


def _turned(key: bytes) -> bytes:
    """A time and what is behind it, the other way round."""
    return key[TIME_BYTES:] + key[:TIME_BYTES]


def _emitted(step: BoundDeduplicate, rows: pa.Table | None, passes: list[int]) -> pa.Table:
    if rows is None:
        return step.emitted.empty_table()
    tracked = [ORIGIN] if ORIGIN in rows.column_names else []
    return rows.select([*step.emitted.names, *tracked]).take(pa.array(passes, pa.int64()))
