"""A union inside a chain of Python steps: the rows pass, their columns are brought in line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.topology.operator import BatchOperator
from atoll.topology.rows import with_origins, without_origins

if TYPE_CHECKING:
    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Align(BatchOperator):
    """Columns by name, in the order and types of the union."""

    makes: ClassVar[Makes] = "one"

    union: pa.Schema

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:  # the union's
        """The union's."""
        return self.union

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,  # nothing of the user's runs here
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch, without copying where nothing differs."""
        if schema.equals(self.union):
            yield from batches
            return
        for batch in batches:
            plain, origins = without_origins(batch)
            columns = [plain.column(field.name).cast(field.type) for field in self.union]
            aligned = pa.RecordBatch.from_arrays(columns, schema=self.union)
            yield with_origins(aligned, origins)
