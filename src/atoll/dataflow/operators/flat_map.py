"""Any number of rows out for each row in: ``stream.flat_map(function, emits=...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.dataflow.operators.base import BatchOperator
from atoll.dataflow.usercode import calling

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.dataflow.rows import Row

__all__ = ["FlatMap"]


@dataclass(frozen=True, eq=False)
class FlatMap(BatchOperator):
    """Calls a Python function with each row; it returns or yields dicts or rows."""

    function: Callable[[Row], Iterable[Any]]
    emitted: pa.Schema

    @property
    def title(self) -> str:
        """As users write it."""
        return "flat_map"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """What ``emits=`` declared."""
        return self.emitted

    def run(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Row by row, batch by batch."""
        from atoll.dataflow.rows import batch_from_rows, rows_of

        for batch in batches:
            out: list[Any] = []
            for row in rows_of(batch):
                with calling(self, row):
                    out.extend(self.function(row))
            yield batch_from_rows(out, self.emitted, self.title, self.place)
