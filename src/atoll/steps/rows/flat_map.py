"""Any number of rows out for each row in: ``stream.flat_map(function, emits=...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.steps.rows.calling import CallingOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class FlatMap(CallingOperator):
    """Calls a Python function with each row; it returns or yields dicts or rows."""

    function: Callable[[Row], Iterable[Any]]

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Row by row, batch by batch."""
        from atoll.steps.rows.calls import all_of, call_rows

        def several(row: Row) -> Iterator[Any]:
            return all_of(self, self.function(row))

        for batch in batches:
            yield call_rows(self, batch, several, rejects)
