"""One row out for each row in: ``stream.map(function, emits="k string, v long")``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.steps.rows.calling import CallingOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Map(CallingOperator):
    """Calls a Python function with each row; it returns a dict or a row."""

    makes: ClassVar[Makes] = "one"

    function: Callable[[Row], Any]

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Row by row, batch by batch."""
        from atoll.steps.rows.calls import call_rows, one_of

        for batch in batches:
            yield call_rows(self, batch, lambda row: one_of(self, self.function(row)), rejects)
