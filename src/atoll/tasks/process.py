"""Calls a user's function with each row and its state handles, vnode by vnode.

Rows of one vnode run in append order. What the function yields is put back into the order of the
rows that it came from, so that the next step sees the order of the depot.

Where rows are set aside on which the function raises, each row runs behind a savepoint: what the
row wrote before it raised is taken back, and what it yielded is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import lmdb
import numpy as np
import pyarrow as pa

from atoll.dataflow.rows import (
    ORIGIN,
    ORIGIN_FIELD,
    batch_from_rows,
    rows_of,
)
from atoll.dataflow.usercode import blame, is_rejectable
from atoll.errors import UserCodeError
from atoll.pstate.handles import handle_for
from atoll.tasks.packing import VNODE

if TYPE_CHECKING:
    from atoll.dataflow.rows import Row
    from atoll.dataflow.usercode import Rejects
    from atoll.pstate.session import VnodeSession
    from atoll.tasks.program import ProcessTerminal, Program

__all__ = ["process"]


def process(
    terminal: ProcessTerminal,
    tables: list[pa.Table],
    program: Program,
    session_of: Callable[[str, int], VnodeSession],
    rejects: Rejects | None = None,
    flush_entries_max: Mapping[str, int] | None = None,
) -> pa.Table | None:
    """Run the rows; the rows emitted, or None when the step emits none.

    Raises:
        AtollError: When the function raises and there is nowhere to set the row aside.
    """
    table = pa.concat_tables(tables).combine_chunks()
    vnodes = table.column(VNODE).to_numpy()
    limits = [(flush_entries_max or {}).get(name) for name in terminal.states]
    run = _Run(terminal, table.drop_columns([VNODE]), rejects)
    order = np.argsort(vnodes, kind="stable")
    bounds = np.flatnonzero(np.diff(vnodes[order], prepend=-1)).tolist()
    for start, stop in zip(bounds, [*bounds[1:], len(order)], strict=True):
        positions = order[start:stop]
        vnode = int(vnodes[positions[0]])
        handles = [
            handle_for(program.pstates[name], session_of(name, vnode), vnode)
            for name in terminal.states
        ]
        run.vnode(positions, handles, limits)
        for handle in handles:
            handle.flush()
    return run.emitted_rows(tracked=terminal.tag in program.tracked)


class _Run:
    """The function over the rows of one table."""

    def __init__(self, terminal: ProcessTerminal, table: pa.Table, rejects: Rejects | None) -> None:
        self.terminal = terminal
        self.rejects = rejects
        tracked = ORIGIN in table.column_names
        self.origins = table.column(ORIGIN).combine_chunks() if tracked else None
        self.rows = table.drop_columns([ORIGIN]) if tracked else table
        self.emitted: list[tuple[int, Any]] = []

    def vnode(
        self, positions: np.ndarray, handles: list[Any], limits: Sequence[int | None]
    ) -> None:
        """Run the rows of one vnode, in order; what was written waits up to the limits."""
        rows = self.rows.take(pa.array(positions)).combine_chunks()
        call = self._call if self.rejects is None else self._call_or_reject
        places = iter(positions.tolist())
        for batch in rows.to_batches():
            for row in rows_of(batch):
                call(row, next(places), handles)
                for handle, limit in zip(handles, limits, strict=True):
                    if limit is not None and handle.waiting() >= limit:
                        handle.flush()

    def emitted_rows(self, *, tracked: bool) -> pa.Table | None:
        """What the function yielded, in the order of the rows that it came from."""
        if self.terminal.emitted is None:
            return None
        self.emitted.sort(key=lambda each: each[0])
        try:
            batch = self._batch([row for _, row in self.emitted])
        except UserCodeError:
            self._find_misfit()
            raise
        if tracked:
            places = pa.array([place for place, _ in self.emitted], pa.int64())
            origins = pa.nulls(len(places), pa.int64())
            if self.origins is not None:
                origins = self.origins.take(places)
            batch = batch.append_column(ORIGIN_FIELD, origins)
        return pa.Table.from_batches([batch])

    def _call(self, row: Row, place: int, handles: list[Any]) -> None:
        try:
            self._collect(self.terminal.function(row, *handles), place)
        except Exception as error:
            blamed = blame(self.terminal, row, self._origin(place), error)
            if blamed is error:
                raise
            raise blamed from error

    def _call_or_reject(self, row: Row, place: int, handles: list[Any]) -> None:
        mark = len(self.emitted)
        for handle in handles:
            handle.savepoint()
        try:
            self._collect(self.terminal.function(row, *handles), place)
            if len(self.emitted) > mark:
                self._batch([each for _, each in self.emitted[mark:]])
        except Exception as error:
            blamed = blame(self.terminal, row, self._origin(place), error)
            if isinstance(error, lmdb.Error) or not is_rejectable(error):
                if blamed is error:
                    raise
                raise blamed from error
            if isinstance(error, UserCodeError):  # what it yielded does not fit
                blamed.context.pop("line", None)
            del self.emitted[mark:]
            for handle in handles:
                handle.roll_back()
            assert self.rejects is not None
            self.rejects.add(self.terminal, row, self._origin(place), blamed)

    def _collect(self, out: Any, place: int) -> None:
        if out is None:
            return
        if self.terminal.emitted is not None:
            self.emitted.extend((place, each) for each in out)
        elif hasattr(out, "__next__"):  # a generator without ``emits`` still runs to its end
            for _ in out:
                pass

    def _find_misfit(self) -> None:
        """Raise for the first row of which something yielded does not fit, with the row."""
        for place, each in self.emitted:
            row = next(rows_of(self.rows.slice(place, 1).combine_chunks().to_batches()[0]))
            try:
                self._batch([each])
            except UserCodeError as error:
                error.context.setdefault("row", repr(row)[:500])
                error.context.setdefault("origin", self._origin(place))
                raise

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        terminal = self.terminal
        assert terminal.emitted is not None
        return batch_from_rows(rows, terminal.emitted, terminal.title, terminal.place)

    def _origin(self, place: int) -> int | None:
        if self.origins is None:
            return None
        origin: int | None = self.origins[place].as_py()
        return origin
