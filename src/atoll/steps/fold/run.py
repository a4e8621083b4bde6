"""Folds rows into rows: what ``group_by(...).agg(total=agg.sum("v"))`` does on an actor.

The same as folding into a PState that holds nothing yet, and reading it: partial states come in,
each combination of keys gives one row. Rows come out in the order of their keys' bytes, so that
every attempt emits the same. Combinations have vnodes of their own, which no store belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.keyed import encoded_keys
from atoll.steps.folding.taking import takeable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from atoll.codec.values.leaf import LeafCodec
    from atoll.steps.fold.bind import BoundFold
    from atoll.steps.folding.step import FoldedField
    from atoll.topology.usercode import Rejects


def fold_rows(step: BoundFold, tables: list[pa.Table], rejects: Rejects | None = None) -> pa.Table:
    """One row per combination of the keys, of partial states in the order of their rows.

    A careful attempt sends the rows that no total can take to ``rejects``.
    """
    table = pa.concat_tables(tables).combine_chunks()
    if rejects is not None:
        table = takeable(step, table, lambda part: _rows(step, part), rejects)
        if not table.num_rows:
            return no_rows(step) if step.fires else step.emitted.empty_table()
    return _rows(step, table)


def _rows(step: BoundFold, table: pa.Table) -> pa.Table:
    columns = [table.column(index).combine_chunks() for index in range(1, table.num_columns)]
    width = len(step.elements)
    keys = encoded_keys(step, columns[:width], table.num_rows)
    order = keys.sort_order()
    starts = keys.take(order).group_starts()
    first = pa.array(np.asarray(order)[starts])
    made = [column.take(first) for column in columns[:width]]
    states = columns[width:]
    for each, codec in zip(step.fields, step.codecs, strict=True):
        made.append(_folded(each, codec, states[each.start : each.stop], order, starts))
    return _emitted(step, made)


def no_rows(step: BoundFold) -> pa.Table:
    """What comes out of a fold without keys although no row came in.

    A count is 0, a list empty, a sum null; a custom combiner gives its zero.
    """
    made = []
    for each, codec in zip(step.fields, step.codecs, strict=True):
        inputs = [pa.nulls(1, kind) for kind in each.kinds]
        states = each.aggregator.nothing(inputs, each.node)
        made.append(shown(each, codec, states))
    return _emitted(step, made)


def _folded(
    each: FoldedField,
    codec: LeafCodec,
    states: Sequence[pa.Array],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> pa.Array:
    """The values of one aggregate, in the order of the groups."""
    indices = pa.array(order)
    ordered = [state.take(indices) for state in states]
    if len(starts) < len(order):
        ordered = each.aggregator.reduce(ordered, starts)
    return shown(each, codec, ordered)


def shown(each: FoldedField, codec: LeafCodec, states: Sequence[pa.Array]) -> pa.Array:
    """What a reader sees of states that came on top of nothing."""
    nothing = codec.decode_columns([None] * len(states[0]))
    merged = codec.encode_columns(each.aggregator.merge(nothing, states))
    return codec.finish_columns(codec.decode_columns(merged))


def _emitted(step: BoundFold, columns: list[pa.Array]) -> pa.Table:
    pairs = zip(columns, step.emitted, strict=True)
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in pairs], schema=step.emitted
    )
