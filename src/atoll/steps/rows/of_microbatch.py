"""What rows know of their microbatch, as a column: when it was planned, and its id.

``stream.with_processing_time("at")``, ``stream.with_microbatch_id("batch")``. Both are the same in
every attempt at it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import DeclarationError
from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.times import Times
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class OfMicrobatch(BatchOperator):
    """The rows, and a number that all rows of a microbatch share."""

    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    in_queries: ClassVar[bool] = False

    column: str
    number: int = 0

    @property
    @abstractmethod
    def kind(self) -> pa.DataType:
        """The type of the column."""

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns, and this one.

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
        return inputs[0].append(pa.field(self.column, self.kind))

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        import pyarrow as pa

        from atoll.topology.rows import with_origins, without_origins

        number = pa.scalar(self.number, pa.int64()).cast(self.kind)
        for batch in batches:
            plain, origins = without_origins(batch)
            wanted = self.schema((plain.schema,))
            columns = [*plain.columns, pa.repeat(number, plain.num_rows)]
            yield with_origins(pa.RecordBatch.from_arrays(columns, schema=wanted), origins)


@dataclass(frozen=True, eq=False)
class ProcessingTime(OfMicrobatch):
    """When the microbatch was planned."""

    instead: ClassVar[str] = (
        "a query is of no microbatch: let its caller give the time as a parameter"
    )

    @property
    def title(self) -> str:
        """As users write it."""
        return "with_processing_time"

    @property
    def kind(self) -> pa.DataType:
        """A time."""
        import pyarrow as pa

        return pa.timestamp("us", "UTC")

    def at(self, times: Times) -> Self:
        """The step while it is that time."""
        return replace(self, number=times.now_ms * 1_000)


@dataclass(frozen=True, eq=False)
class MicrobatchId(OfMicrobatch):
    """Its id."""

    instead: ClassVar[str] = (
        "a query is of no microbatch: let its caller give a number as a parameter"
    )

    @property
    def title(self) -> str:
        """As users write it."""
        return "with_microbatch_id"

    @property
    def kind(self) -> pa.DataType:
        """A long."""
        import pyarrow as pa

        return pa.int64()

    def at(self, times: Times) -> Self:
        """The step in that microbatch."""
        return replace(self, number=times.microbatch_id)
