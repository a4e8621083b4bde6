"""What a caller hands over becomes checked batches: rows, Arrow data or a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked, Refusals
from atoll.depot.segments.blocks import BLOCK_ROWS_MAX
from atoll.errors import RecordsRefusedError, UsageError, kind_of_value
from atoll.objects import as_row, is_object

_ROWS_PER_CHECK = 4 * BLOCK_ROWS_MAX


def checked_parts(data: Any, codec: RecordCodec, depot: str) -> Iterator[Checked]:
    """The records in parts of bounded size.

    Args:
        data: A mapping or an object of a class with fields, an iterable of them, Arrow data or a
            pandas DataFrame.
        codec: What checks them.
        depot: For errors.

    Raises:
        UsageError: When it is none of these.
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        yield from _of_arrow(data, codec)
    elif isinstance(data, Mapping) or is_object(data):
        yield codec.from_rows([as_row(data)])
    elif isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise UsageError(
            f"{kind_of_value(data)} cannot be appended",
            hint="give a mapping or an object of a class with fields, a list of them, an Arrow "
            "table or a pandas DataFrame",
            depot=depot,
        )
    elif hasattr(data, "iloc") and hasattr(data, "columns"):
        yield codec.from_pandas(data)
    else:
        yield from _of_rows(data, codec)


def _of_arrow(data: pa.Table | pa.RecordBatch, codec: RecordCodec) -> Iterator[Checked]:
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if table.num_rows == 0:
        yield codec.from_arrow(table)
    for start in range(0, table.num_rows, _ROWS_PER_CHECK):
        yield codec.from_arrow(table.slice(start, _ROWS_PER_CHECK), start + 1)


def _of_rows(rows: Iterable[Any], codec: RecordCodec) -> Iterator[Checked]:
    chunk: list[Any] = []
    line = 1
    for row in rows:
        chunk.append(row if type(row) is dict else as_row(row))
        if len(chunk) >= BLOCK_ROWS_MAX:
            yield codec.from_rows(chunk, line)
            line += len(chunk)
            chunk = []
    yield codec.from_rows(chunk, line)


def refused_error(
    refusals: Refusals,
    depot: str,
    hint: str = "correct them, or append with on_invalid='keep' to store the others",
) -> RecordsRefusedError:
    """The error of an append of which nothing is kept; the caller raises it."""
    first = refusals.kept[0]
    count = "1 record does" if refusals.count == 1 else f"{refusals.count} records do"
    return RecordsRefusedError(
        f"{count} not fit the schema; the first is line {first.line}: {first.reason}",
        hint=hint,
        depot=depot,
        refusals=[{"line": item.line, "reason": item.reason} for item in refusals.kept],
        refused=refusals.count,
        appended=0,
    )
