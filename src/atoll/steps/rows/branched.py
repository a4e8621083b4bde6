"""The rows that a condition sent one way: the second half of ``branch`` by a Python function."""

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
class Chosen(BatchOperator):
    """Keeps the rows that have a number in a column, and drops the column."""

    keeps_rows: ClassVar[bool] = True
    makes: ClassVar[Makes] = "at most one"

    column: str
    number: int

    @property
    def title(self) -> str:
        """As users write it."""
        return "branch"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's without the column."""
        return inputs[0].remove(inputs[0].get_field_index(self.column))

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; no row is made."""
        import pyarrow.compute as pc

        for batch in batches:
            mask = pc.equal(batch.column(self.column), self.number)
            yield batch.drop_columns([self.column]).filter(mask)
