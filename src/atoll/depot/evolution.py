"""Which schema may follow another one in the life of a depot. Pure.

Columns may be added behind the others when they may be null: records stored before have null
there. So every segment keeps the schema that it was written with, and readers fill in the rest.
"""

from __future__ import annotations

import functools

import pyarrow as pa

from atoll.ddl import parse_ddl


@functools.lru_cache(maxsize=1024)
def extends(ddl: str | None, earlier: str | None) -> bool:
    """Whether records of an earlier schema can be read as those of another one."""
    return ddl == earlier or bool(ddl and earlier and added_columns(ddl, earlier))


def added_columns(ddl: str, earlier: str) -> tuple[str, ...]:
    """The columns that a schema adds to an earlier one; none when it is no such schema."""
    now, before = list(parse_ddl(ddl)), list(parse_ddl(earlier))
    added = now[len(before) :]
    fits = now[: len(before)] == before and all(each.nullable for each in added)
    return tuple(each.name for each in added) if fits else ()


def with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of a schema that it lacks at its end: null in every row."""
    if batch.num_columns == len(schema):
        return batch
    added = [pa.nulls(batch.num_rows, each.type) for each in list(schema)[batch.num_columns :]]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)
