"""Which microbatch rows are of, as a column: ``stream.with_microbatch_id("batch")``."""

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
class MicrobatchId(BatchOperator):
    """The rows, and the id of their microbatch: the same in every attempt at it."""

    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    in_queries: ClassVar[bool] = False
    instead: ClassVar[str] = (
        "a query is of no microbatch: let its caller give a number as a parameter"
    )

    column: str
    microbatch_id: int = 0

    @property
    def title(self) -> str:
        """As users write it."""
        return "with_microbatch_id"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns, and the id.

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
        return inputs[0].append(pa.field(self.column, pa.int64()))

    def at(self, times: Times) -> MicrobatchId:
        """The step in that microbatch."""
        return replace(self, microbatch_id=times.microbatch_id)

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; all rows have the same."""
        import pyarrow as pa

        from atoll.topology.rows import with_origins, without_origins

        for batch in batches:
            plain, origins = without_origins(batch)
            wanted = self.schema((plain.schema,))
            number = pa.scalar(self.microbatch_id, pa.int64())
            columns = [*plain.columns, pa.repeat(number, plain.num_rows)]
            yield with_origins(pa.RecordBatch.from_arrays(columns, schema=wanted), origins)
