"""When rows are processed, as a column: ``stream.with_processing_time("at")``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import DeclarationError
from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.times import Times
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class ProcessingTime(BatchOperator):
    """The rows, and when their microbatch was planned: the same in every attempt at it."""

    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    in_queries: ClassVar[bool] = False
    instead: ClassVar[str] = (
        "a query is of no microbatch: let its caller give the time as a parameter"
    )

    column: str
    now_ms: int = 0

    @property
    def title(self) -> str:
        """As users write it."""
        return "with_processing_time"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns, and the time.

        Raises:
            DeclarationError: When there is such a column already.
        """
        import pyarrow as pa

        if self.column in inputs[0].names:
            raise DeclarationError(
                f"{self.title} adds a column {self.column!r}, which the rows have already",
                hint="choose another name",
                declared=self.place,
            )
        return inputs[0].append(pa.field(self.column, pa.timestamp("us", "UTC")))

    def at(self, times: Times) -> ProcessingTime:
        """The step while it is that time."""
        return replace(self, now_ms=times.now_ms)

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; all rows have the same time."""
        import pyarrow as pa

        from atoll.topology.rows import with_origins, without_origins

        for batch in batches:
            plain, origins = without_origins(batch)
            wanted = self.schema((plain.schema,))
            now = pa.scalar(self.now_ms * 1_000, pa.int64()).cast(wanted.field(self.column).type)
            columns = [*plain.columns, pa.repeat(now, plain.num_rows)]
            yield with_origins(pa.RecordBatch.from_arrays(columns, schema=wanted), origins)
