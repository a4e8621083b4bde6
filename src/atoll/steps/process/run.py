"""Calls a user's function with each row and its state handles, vnode by vnode.

Rows of one vnode run in append order. What the function yields is put back into the order of the
rows that it came from, so that the next step sees the order of the depot.

Where a step has timers, those of a vnode that are due run before its rows.

Where rows are set aside on which the function raises, each row runs behind a savepoint: what the
row wrote before it raised is taken back, and what it yielded is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import lmdb
import numpy as np
import pyarrow as pa

from atoll.beats import present
from atoll.ddl import columns_in_words
from atoll.engine.exchange.keyed import VNODE, key_arrays, with_vnodes
from atoll.errors import GivenError, UserCodeError
from atoll.objects import as_row, is_object
from atoll.pstate.handles import handle_for, handle_of_vnode
from atoll.python_values import python_values
from atoll.steps.process.timers import Firing, Timers
from atoll.topology.rows import (
    ORIGIN,
    ORIGIN_FIELD,
    Row,
    batch_from_rows,
    put_beside,
    row_at,
    rows_of,
    taken,
)
from atoll.topology.usercode import blame, is_rejectable

if TYPE_CHECKING:
    from atoll.engine.step import Work
    from atoll.steps.process.bind import BoundProcess
    from atoll.topology.usercode import Rejects


def process(
    step: BoundProcess, tables: list[pa.Table], work: Work, firing: Firing | None = None
) -> pa.Table | None:
    """Run the timers that are due and the rows; the rows emitted, or None when it emits none.

    ``work`` is told with how many rows the function was called.

    Raises:
        AtollError: When a function raises and there is nowhere to set the row aside.
    """
    run = _Run(step, tables, work.rejects)
    limits = [work.flush_entries_max.get(name) for name in step.pstates]
    due = set() if firing is None else firing.due
    for vnode in sorted({*run.positions, *due}):
        handed: set[int] = set()
        handles: list[Any] = [
            (handle_of_vnode if name in step.local else handle_for)(
                work.pstates[name], work.writer(name, vnode), vnode, handed
            )
            for name in step.states
        ]
        if firing is not None and step.timers is not None:
            writer = work.writer(step.timers, vnode)
            timers = Timers(work.pstates[step.timers], writer, vnode, firing)
            handles.append(timers)
            if vnode in due:
                run.timers(timers, handles)
            run.rows_of_vnode(vnode, handles, limits)
            firing.agenda[vnode] = timers.next_ms()
        else:
            run.rows_of_vnode(vnode, handles, limits)
        for handle in handles:
            handle.close()
    work.count(step.tag, run.called)
    return run.emitted_rows(tracked=work.is_tracked(step.tag))


def numbered(column: pa.ChunkedArray, vnode_count: int) -> pa.Array:
    """The vnode of each number; null counts as 0."""
    numbers = column.combine_chunks().cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array((numbers % vnode_count).astype(np.uint16))


def to_every_vnode(rows: pa.Table, vnode_count: int) -> pa.Table:
    """Each row once per vnode, the rows of a vnode in their order."""
    copies = rows.take(pa.array(np.tile(np.arange(rows.num_rows), vnode_count)))
    vnodes = np.repeat(np.arange(vnode_count, dtype=np.uint16), rows.num_rows)
    return with_vnodes(copies, pa.array(vnodes))


def _is_row(given: Any) -> bool:
    return isinstance(given, dict | Row) or is_object(given)


def _returned(step: BoundProcess) -> GivenError:
    return GivenError(
        f"the function of {step.title} returned a row, and rows are yielded",
        hint="write yield in place of return, and declare the row's columns in emits=; where "
        "nothing is to come out, return nothing",
        operator=step.title,
        declared=step.place,
    )


def _not_declared(step: BoundProcess, row: Any) -> GivenError:
    values = row.asdict() if isinstance(row, Row) else as_row(row)
    emits = 'emits="id string, amount long"'
    if isinstance(values, dict):
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            emits = f'emits="{columns_in_words(pa.Table.from_pylist([values]).schema)}"'
    return GivenError(
        f"the function of {step.title} yielded a row, and the step declares no emits=",
        hint=f"declare the columns that go on, such as {emits}; or yield nothing",
        operator=step.title,
        declared=step.place,
    )


_Order = tuple[int, int, bytes]
"""Timers come before rows; timers by time and key, rows by their place."""

_TIMERS, _ROWS = 0, 1


class _Calling(NamedTuple):
    """A function and what it is called with."""

    function: Callable[..., Any]
    row: Row
    order: _Order
    place: int | None = None
    """Of the row among the actor's; None for a timer."""
    beside: dict[str, Any] | None = None
    """The row's columns, where what the function yields stands beside them."""


class _Run:
    """The functions over the rows and timers of one actor."""

    def __init__(self, step: BoundProcess, tables: list[pa.Table], rejects: Rejects | None) -> None:
        self.step = step
        self.rejects = rejects
        self.emitted: list[tuple[_Order, int | None, Any]] = []
        self.called = 0
        self.positions: dict[int, np.ndarray] = {}
        """The rows of each vnode."""
        self.origins = self.keys = None
        self.rows = step.rows.empty_table()
        if not tables:
            return
        table = pa.concat_tables(tables).combine_chunks()
        vnodes = table.column(VNODE).to_numpy()
        order = np.argsort(vnodes, kind="stable")
        bounds = np.flatnonzero(np.diff(vnodes[order], prepend=-1)).tolist()
        for start, stop in zip(bounds, [*bounds[1:], len(order)], strict=True):
            self.positions[int(vnodes[order[start]])] = order[start:stop]
        tracked = ORIGIN in table.column_names
        self.origins = table.column(ORIGIN).combine_chunks() if tracked else None
        if step.timers is not None and step.key is not None:
            self.keys = key_arrays((step.key,), table)[0]
        hidden = [VNODE, *([ORIGIN] if tracked else [])]
        if step.hides_key and step.key is not None:
            hidden.append(str(step.key.column))
        self.rows = table.drop_columns(hidden)

    def timers(self, timers: Timers, handles: list[Any]) -> None:
        """Run the timers of one vnode that are due."""
        function = self.step.on_timer
        assert function is not None
        call = self._call if self.rejects is None else self._call_or_reject
        for place, timer in present().each(list(timers.due())):
            timers.belong_to(timer["key"])
            call(_Calling(function, timer, (_TIMERS, timer["time_ms"], place)), handles)

    def rows_of_vnode(self, vnode: int, handles: list[Any], limits: Sequence[int | None]) -> None:
        """Run the rows of one vnode, in order; what was written waits up to the limits."""
        if vnode not in self.positions:
            return
        positions = self.positions[vnode]
        rows = self.rows.take(pa.array(positions)).combine_chunks()
        call = self._call if self.rejects is None else self._call_or_reject
        keys = (
            None if self.keys is None else iter(python_values(self.keys.take(pa.array(positions))))
        )
        places = iter(positions.tolist())
        for batch in rows.to_batches():
            for row in present().each(rows_of(batch)):
                if keys is not None:
                    handles[-1].belong_to(next(keys))
                place = next(places)
                self.called += 1
                beside = row.asdict() if self.step.adds else None
                calling = _Calling(self.step.function, row, (_ROWS, place, b""), place, beside)
                call(calling, handles)
                for handle, limit in zip(handles, limits, strict=True):
                    if limit is not None and handle.waiting() >= limit:
                        handle.flush()

    def emitted_rows(self, *, tracked: bool) -> pa.Table | None:
        """What the function yielded, in the order of the rows that it came from."""
        if self.step.emitted is None:
            return None
        self.emitted.sort(key=lambda each: each[0])
        try:
            batch = self._batch([row for _, _, row in self.emitted])
        except UserCodeError:
            self._find_misfit()
            raise
        if tracked:
            places = pa.array([place for _, place, _ in self.emitted], pa.int64())
            origins = pa.nulls(len(places), pa.int64())
            if self.origins is not None:
                origins = self.origins.take(places)
            batch = batch.append_column(ORIGIN_FIELD, origins)
        return pa.Table.from_batches([batch])

    def _call(self, calling: _Calling, handles: list[Any]) -> None:
        running = True
        try:
            self._collect(calling.function(calling.row, *handles), calling)
            running = False
            for handle in handles:
                handle.end_call()
        except Exception as error:
            blamed = blame(self.step, self._read(calling), self._origin(calling.place), error)
            if not running or isinstance(error, UserCodeError):
                blamed.context.pop("line", None)
            if blamed is error:
                raise
            raise blamed from error

    def _call_or_reject(self, calling: _Calling, handles: list[Any]) -> None:
        mark = len(self.emitted)
        running = True
        for handle in handles:
            handle.savepoint()
        try:
            self._collect(calling.function(calling.row, *handles), calling)
            running = False
            for handle in handles:
                handle.end_call()
            if len(self.emitted) > mark:
                self._batch([each for _, _, each in self.emitted[mark:]])
        except Exception as error:
            origin = self._origin(calling.place)
            row = self._read(calling)
            blamed = blame(self.step, row, origin, error)
            if isinstance(error, lmdb.Error) or not is_rejectable(error):
                if blamed is error:
                    raise
                raise blamed from error
            if not running or isinstance(error, UserCodeError):  # no line of its own was running
                blamed.context.pop("line", None)
            del self.emitted[mark:]
            for handle in handles:
                handle.roll_back()
            assert self.rejects is not None
            self.rejects.add(self.step, row, origin, blamed)

    def _collect(self, out: Any, calling: _Calling) -> None:
        if out is None:
            return
        if _is_row(out):
            raise _returned(self.step)
        if self.step.emitted is not None:
            found = self._yielded(out)
            self.emitted.extend(
                (calling.order, calling.place, put_beside(calling.beside, taken(each)))
                for each in found
            )
        elif hasattr(out, "__next__") or isinstance(out, list | tuple):
            for each in self._yielded(out):  # a generator runs to its end though it yields nothing
                if _is_row(each):
                    raise _not_declared(self.step, each)

    def _yielded(self, out: Any) -> Iterator[Any]:
        """What a function gave, row by row; a generator must not return one as well."""
        returned = yield from out
        if _is_row(returned):
            raise _returned(self.step)

    def _find_misfit(self) -> None:
        """Raise for the first row of which something yielded does not fit, with the row."""
        for _, place, each in self.emitted:
            row: Any = "a timer"
            if place is not None:
                row = row_at(self.rows, place)
            try:
                self._batch([each])
            except UserCodeError as error:
                error.context.setdefault("row", repr(row)[:500])
                error.context.setdefault("origin", self._origin(place))
                raise

    def _read(self, calling: _Calling) -> Row:
        """What the function was called with, as it was before the call."""
        return calling.row if calling.place is None else row_at(self.rows, calling.place)

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        step = self.step
        assert step.emitted is not None
        return batch_from_rows(rows, step.emitted, step.title, step.place)

    def _origin(self, place: int | None) -> int | None:
        if self.origins is None or place is None:
            return None
        origin: int | None = self.origins[place].as_py()
        return origin
