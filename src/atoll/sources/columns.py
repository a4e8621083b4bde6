"""Batches of lake tables with the columns of a depot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from atoll.sources.base import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


def only_columns(schema: pa.Schema, there: Iterable[str], place: str) -> None:
    """Hold that a table has the columns of a depot.

    Raises:
        SourceError: When it lacks some.
    """
    names = set(there)
    lacking = [each for each in schema.names if each not in names]
    if lacking:
        raise SourceError(
            f"the table lacks columns of the depot: {', '.join(lacking)}",
            hint=f"it has {', '.join(sorted(names))}; read a table that has them",
            problem="unreadable",
            place=place,
        )


def fitted(batch: pa.RecordBatch, schema: pa.Schema, fixed: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch with the columns of a depot, in their order.

    Args:
        batch: What was read; columns of the table that the depot lacks are left out.
        schema: The depot's.
        fixed: Columns that have one value for all rows, such as those of a partition, which may
            be text of that value. Columns that are nowhere are null: they came later.
    """
    import pyarrow as pa

    columns, fields = [], []
    for field in schema:
        if field.name in batch.schema.names:
            column = _plain(batch.column(field.name))
            fields.append(pa.field(field.name, column.type))
        else:
            value = fixed.get(field.name)
            column = pa.array([None if value == "" else value]).cast(field.type)
            column = pa.repeat(column[0], batch.num_rows)
            fields.append(pa.field(field.name, field.type))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _plain(column: pa.Array) -> pa.Array:
    """Texts and bytes as the rest of Atoll has them."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_binary_view(column.type) else column
