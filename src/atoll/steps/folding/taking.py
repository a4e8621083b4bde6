"""Which rows of an aggregate its state can take, when it cannot take them all.

A total that does not fit is no fault of one row: here, as in any ledger, the row at fault is the
one at which it would no longer fit, in append order. Rows that fit together are taken together;
the rows of a key that do not are halved, and each half is taken as far as it goes on top of what
was taken before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.careful import Refusing, sift, tried
from atoll.engine.exchange.keyed import encoded_keys
from atoll.steps.folding.step import ROW
from atoll.topology.rows import ORIGIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.errors import AtollError
    from atoll.steps.folding.step import FoldingStep
    from atoll.topology.usercode import Rejects


def takeable(
    step: FoldingStep, table: pa.Table, fold: Callable[[pa.Table], Any], rejects: Rejects
) -> pa.Table:
    """The rows that can be folded; the others go to ``rejects``.

    Args:
        step: The step.
        table: What a careful packer made of rows, in their order.
        fold: Folds rows and writes nothing; raises when a total does not fit.
        rejects: Where rows go that do not.
    """
    if tried(lambda: fold(table)) is None:
        return table
    order, starts = _groups(step, table)
    bare = table.drop_columns([ORIGIN, ROW])
    stops = [*starts[1:].tolist(), len(order)]

    def together(first: int, stop: int) -> AtollError | None:
        rows = order[starts[first] : stops[stop - 1]]
        return tried(lambda: fold(bare.take(pa.array(rows)).combine_chunks()))

    refused: dict[int, AtollError] = {}
    for group, _ in sift(0, len(starts), together):
        refused |= _refused(step, bare, order[starts[group] : stops[group]], fold)
    return _without(table, refused, Refusing(step, rejects))


def _groups(step: FoldingStep, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows by key, those of a key in append order, and where each key's begin."""
    width = len(step.elements)
    columns = [table.column(1 + index).combine_chunks() for index in range(width)]
    keys = encoded_keys(step, columns, table.num_rows)
    origins = table.column(ORIGIN).fill_null(np.iinfo(np.int64).max).to_numpy()
    appended = np.argsort(origins, kind="stable")
    order = appended[keys.take(appended).sort_order()]
    return order, keys.take(order).group_starts()


def _refused(
    step: FoldingStep,
    bare: pa.Table,
    rows: NDArray[np.int64],
    fold: Callable[[pa.Table], Any],
) -> dict[int, AtollError]:
    """The rows of one key, in append order, that do not fit on top of those taken before them."""
    taken = bare.slice(0, 0)

    def take(first: int, stop: int) -> AtollError | None:
        nonlocal taken
        part = bare.take(pa.array(rows[first:stop]))
        more = pa.concat_tables([taken, part]).combine_chunks()
        error = tried(lambda: fold(more))
        if error is None:
            taken = _reduced(step, more)
        return error

    return {int(rows[each]): error for each, error in sift(0, len(rows), take)}


def _reduced(step: FoldingStep, rows: pa.Table) -> pa.Table:
    """Rows of one key as one, whose state is that of all."""
    columns = [rows.column(index).combine_chunks() for index in range(rows.num_columns)]
    at = 1 + len(step.elements)
    made = [column.slice(0, 1) for column in columns[:at]]
    for each in step.fields:
        states = columns[at : at + each.stop - each.start]
        made += each.aggregator.reduce(states, np.zeros(1, np.int64))
        at += len(states)
    return pa.Table.from_arrays(made, schema=rows.schema)


def _without(table: pa.Table, refused: dict[int, AtollError], refusing: Refusing) -> pa.Table:
    """The rows that are not refused; the others are, in their order."""
    for position, error in sorted(refused.items()):
        seen = pa.Table.from_struct_array(table.column(ROW).slice(position, 1))
        row = seen.append_column(ORIGIN, table.column(ORIGIN).slice(position, 1))
        refusing.refuse(row, 0, error)
    kept = np.ones(table.num_rows, np.bool_)
    kept[list(refused)] = False
    return table.filter(pa.array(kept)).combine_chunks()
