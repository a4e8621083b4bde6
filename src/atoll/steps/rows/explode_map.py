"""One row per entry of a map column, for ``agg.merge_map``; runs in Python, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class ExplodeMap(BatchOperator):
    """Puts each entry's key and value beside the other columns; a null map has no entries."""

    column: str
    key: str
    value: str

    @property
    def title(self) -> str:
        """The aggregate that needs it."""
        return "merge_map"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns, then the entry's.

        Raises:
            DeclarationError: When the column is not there, or no map.
        """
        import pyarrow as pa

        from atoll.ddl import type_in_words

        names = inputs[0].names
        kind = inputs[0].field(self.column).type if self.column in names else None
        if kind is None or not pa.types.is_map(kind):
            problem = (
                "is missing" if kind is None else f"is of type {type_in_words(kind)}, not a map"
            )
            raise DeclarationError(
                f"agg.merge_map: the column {self.column!r} {problem}",
                hint="name a map; agg.map_from(key, value) takes keys and values one by one",
                declared=self.place,
            )
        entry = [pa.field(self.key, kind.key_type), pa.field(self.value, kind.item_type)]
        return pa.schema([*inputs[0], *entry])

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch, entries in their order; rows keep their origins."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from atoll.topology.rows import with_origins, without_origins

        emitted = self.schema([schema])
        for batch in batches:
            plain, origins = without_origins(batch)
            kind = emitted.field(self.key).type, emitted.field(self.value).type
            entries = pa.struct([pa.field("key", kind[0], nullable=False), ("value", kind[1])])
            lists = plain.column(self.column).cast(pa.list_(entries))
            rows = pc.list_parent_indices(lists)
            keys, values = pc.list_flatten(lists).flatten()
            columns = [column.take(rows) for column in plain.columns]
            made = pa.RecordBatch.from_arrays([*columns, keys, values], schema=emitted)
            yield with_origins(made, None if origins is None else origins.take(rows))
