"""Calls a user's function with each row and its state handles, vnode by vnode.

Rows of one vnode run in append order. What the function yields is put back into the order of the
rows that it came from, so that the next step sees the order of the depot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from atoll.dataflow.rows import batch_from_rows, rows_of
from atoll.dataflow.usercode import calling
from atoll.pstate.handles import handle_for
from atoll.tasks.packing import VNODE

if TYPE_CHECKING:
    from atoll.pstate.session import VnodeSession
    from atoll.tasks.program import ProcessTerminal, Program

__all__ = ["process"]


def process(
    terminal: ProcessTerminal,
    tables: list[pa.Table],
    program: Program,
    session_of: Callable[[str, int], VnodeSession],
) -> pa.Table | None:
    """Run the rows; the rows emitted, or None when the step emits none."""
    table = pa.concat_tables(tables).combine_chunks()
    vnodes = table.column(VNODE).to_numpy()
    rows = table.drop_columns([VNODE])
    order = np.argsort(vnodes, kind="stable")
    bounds = np.flatnonzero(np.diff(vnodes[order], prepend=-1)).tolist()
    emitted: list[tuple[int, Any]] = []
    for start, stop in zip(bounds, [*bounds[1:], len(order)], strict=True):
        positions = order[start:stop]
        vnode = int(vnodes[positions[0]])
        handles = [
            handle_for(program.pstates[name], session_of(name, vnode), vnode)
            for name in terminal.states
        ]
        batch = rows.take(pa.array(positions)).combine_chunks()
        _run(terminal, batch, positions.tolist(), handles, emitted)
        for handle in handles:
            handle.flush()
    if terminal.emitted is None:
        return None
    emitted.sort(key=lambda each: each[0])
    batch = batch_from_rows(
        [row for _, row in emitted], terminal.emitted, terminal.title, terminal.place
    )
    return pa.Table.from_batches([batch])


def _run(
    terminal: ProcessTerminal,
    rows: pa.Table,
    positions: list[int],
    handles: list[Any],
    emitted: list[tuple[int, Any]],
) -> None:
    function = terminal.function
    at = 0
    for batch in rows.to_batches():
        for row in rows_of(batch):
            with calling(terminal, row):
                out = function(row, *handles)
                if out is not None and terminal.emitted is not None:
                    emitted.extend((positions[at], each) for each in out)
                elif out is not None:
                    _exhaust(out)
            at += 1


def _exhaust(out: Any) -> None:
    """A generator function without ``emits`` still runs to its end."""
    if hasattr(out, "__next__"):
        for _ in out:
            pass
