"""Aggregates of Atoll's own in queries: one process folds all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.engine.exchange.packing import KeyedPacker, packed_whole
from atoll.steps.fold.bind import bound_fold, group_mapping
from atoll.steps.fold.run import fold_rows, no_rows
from atoll.topology.binding import StepName

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.steps.fold.bind import BoundFold
    from atoll.steps.fold.declare import Fold
    from atoll.topology.querying.step import Done, InQuery, Reading, Run

_UNIT = 0


def folds(step: Fold, query: InQuery) -> Done:
    """One row per combination of the keys.

    Raises:
        DeclarationError: When a column is not there, or cannot be a key or be aggregated.
    """
    fold = bound_fold(step, StepName(0, step.title, step.place), query.rows)
    return fold.emitted, folding(fold)


def folding(step: BoundFold) -> Run:
    """How a query does it."""

    def run(tables: list[pa.Table], _reading: Reading) -> pa.Table:
        packed = packed_whole(KeyedPacker(step, group_mapping((_UNIT,))), tables[0])
        with step.blamed():
            if packed is not None:
                return fold_rows(step, [packed])
            return no_rows(step) if step.fires else step.emitted.empty_table()

    return run
