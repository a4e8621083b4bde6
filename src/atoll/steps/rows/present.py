"""Keep the rows that have a value in a column: the inner part of a join with a PState."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Present(BatchOperator):
    """Arrow's own filter: no row is made."""

    makes: ClassVar[Makes] = "at most one"

    column: str

    @property
    def title(self) -> str:
        """As users write it."""
        return "join"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's."""
        return inputs[0]

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        for batch in batches:
            yield batch.filter(batch.column(self.column).is_valid())
