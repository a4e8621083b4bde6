"""Windows of event time on an actor: rows in, the rows of windows that close out.

Entries of a vnode lie in the order in which their windows end, so closing is a walk over the
first of them. What is closed was fixed by the plan, so every attempt closes the same.

A window *closes* in the first microbatch whose watermark is at its end or later: then its row
comes out. Within the allowed lateness it is kept: a microbatch that changes it gives its row
again. Then it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.keys.decode import decode_columns
from atoll.codec.keys.elements import SIGN_BIT, TAG_DATETIME, TAG_INT
from atoll.codec.scalars import INT64_MAX
from atoll.steps.folding.merging import fold
from atoll.steps.windows.bound import TIMES
from atoll.steps.windows.merging import merge, state_key
from atoll.topology.times import NEVER

if TYPE_CHECKING:
    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.windows.bound import BoundWindows
    from atoll.topology.times import Times
    from atoll.topology.usercode import Rejects

WriterOf = Callable[[str, int], "VnodeWriter"]


def run(
    step: BoundWindows,
    tables: list[pa.Table],
    times: Times,
    due: Iterable[int],
    writer_of: WriterOf,
    rejects: Rejects | None = None,
) -> tuple[pa.Table, dict[int, int]]:
    """Fold the rows into their windows, then close those that are due.

    Args:
        step: The step.
        tables: Its rows.
        times: What time it is.
        due: The vnodes in which windows close or are removed.
        writer_of: The open writer of a PState's vnode.
        rejects: Where a careful attempt sends the rows that no total can take; None in others.

    Returns:
        The rows of closed windows, by vnode and end; for each vnode when something is due next.
    """
    written: dict[int, list[bytes]] = {}
    if tables and step.sessions is None:
        written = fold(step, tables, lambda each: writer_of(step.pstate, each), rejects)
    elif tables:
        written = merge(step, tables, writer_of)
    closing = _Closing(step, times)
    keys: list[bytes] = []
    values: list[bytes | None] = []
    agenda: dict[int, int] = {}
    for vnode in sorted({*written, *due}):
        index = writer_of(step.pstate, vnode)
        states = index if step.sessions is None else writer_of(step.sessions, vnode)
        closed = closing.closed(index, written.get(vnode, ()))
        keys += closed
        values += states.get_many([closing.state_key(key) for key in closed])
        closing.remove(index, states)
        agenda[vnode] = closing.next_due(index)
    return _emitted(step, keys, values), agenda


class _Closing:
    """What a watermark closes and removes in one vnode's index."""

    def __init__(self, step: BoundWindows, times: Times) -> None:
        self.step = step
        self.kind = step.elements[0].kind
        self.now = times.of(step.clock)
        self.before = times.event_before(step.clock)

    def closed(self, index: VnodeWriter, written: Iterable[bytes]) -> list[bytes]:
        """The keys of windows whose rows come out now, in order."""
        if self.now is None:
            return []
        low = None if self.before is None else self._after(self.before)
        found = {key for key, _ in index.scan(low, self._after(self.now))}
        if low is not None:  # those that closed earlier and changed now
            found.update(key for key in written if key < low)
        return sorted(found)

    def remove(self, index: VnodeWriter, states: VnodeWriter) -> None:
        """Forget the windows that no row can change any more."""
        if self.now is None:
            return
        gone = [key for key, _ in index.scan(None, self._after(self.now - self.lateness))]
        index.put_many(gone, [None] * len(gone))
        if states is not index:
            keys = sorted(self.state_key(key) for key in gone)
            states.put_many(keys, [None] * len(keys))

    def next_due(self, index: VnodeWriter) -> int:
        """When the next window closes or is removed."""
        first = _first_end(index, None)
        if first is None:
            return NEVER
        if self.now is None or first > self.now:
            return first
        unclosed = _first_end(index, self._after(self.now))
        return min(first + self.lateness, NEVER if unclosed is None else unclosed)

    def state_key(self, key: bytes) -> bytes:
        """Where the state of an indexed window is."""
        return key if self.step.sessions is None else state_key(key)

    @property
    def lateness(self) -> int:
        return self.step.lateness_ms

    def _after(self, millis: int) -> bytes:
        """The key after those of all windows that end at that time or earlier."""
        tag, scale = _TIMES[self.kind.kind]
        number = min((millis + 1) * scale, INT64_MAX) + SIGN_BIT
        return bytes((tag,)) + max(number, 0).to_bytes(_WIDTH)


_TIMES = {"int": (TAG_INT, 1), "datetime": (TAG_DATETIME, 1_000)}
"""For each kind of event time how a key says that it is one, and its units in a millisecond."""

_WIDTH = 8


def _first_end(index: VnodeWriter, low: bytes | None) -> int | None:
    """When the first window from a key on ends."""
    for key, _ in index.scan(low):
        number = int.from_bytes(key[1 : 1 + _WIDTH]) - SIGN_BIT
        return number if key[0] == TAG_INT else number // 1_000
    return None


def _emitted(step: BoundWindows, keys: list[bytes], values: list[bytes | None]) -> pa.Table:
    if not keys:
        return step.emitted.empty_table()
    end, start, *by = decode_columns(keys, [each.kind for each in step.elements])
    assert step.codec is not None
    shown = step.codec.finish_columns(step.codec.decode_columns(values)).flatten()
    assert len(by) == len(step.elements) - TIMES
    columns = zip([*by, start, end, *shown], step.emitted, strict=True)
    return pa.Table.from_arrays([c.cast(f.type) for c, f in columns], schema=step.emitted)
