"""One row out for each row in: ``stream.map(function, emits="k string, v long")``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Map(BatchOperator):
    """Calls a Python function with each row; it returns a dict or a row."""

    makes: ClassVar[Makes] = "one"

    function: Callable[[Row], Any]
    emitted: pa.Schema

    @property
    def sees_records(self) -> bool:
        """Its function may raise."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """What ``emits=`` declared."""
        from atoll.topology.rows import given_columns

        return given_columns(self.emitted, inputs[0])

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
