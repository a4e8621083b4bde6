"""Values beside the rows that they are of: what a path leads to, what another query answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.steps.columns.tables import taken
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD, batch_from_rows, rows_of

if TYPE_CHECKING:
    from atoll.topology.querying.step import Reading, Run
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Step


def beside(
    values_of: Callable[[Row, Reading], Iterable[dict[str, Any]]],
    step: Step,
    added: pa.Schema,
    emitted: pa.Schema,
    tracked: pa.Table | None = None,
) -> Run:
    """For each row as many rows as it has values, the values' columns last.

    Where ``tracked`` are the same rows with their origins, those come out behind.
    """

    def run(tables: list[pa.Table], reading: Reading) -> pa.Table:
        parents: list[int] = []
        made: list[dict[str, Any]] = []
        number = 0
        for batch in tables[0].to_batches():
            for row in rows_of(batch):
                reading.check()
                for values in values_of(row, reading):
                    parents.append(number)
                    made.append(values)
                number += 1
        columns = batch_from_rows(made, added, step.title, step.place).columns
        kept = taken(tables[0], parents).columns
        table = pa.Table.from_arrays([*kept, *columns], schema=emitted)
        if tracked is None or ORIGIN not in tracked.column_names:
            return table
        origins = tracked.column(ORIGIN).take(pa.array(parents, pa.int64()))
        return table.append_column(ORIGIN_FIELD, origins)

    return run
