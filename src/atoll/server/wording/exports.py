"""Exported state on its way out: an Arrow stream or a Parquet file, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from atoll.errors import AtollError
from atoll.server.wording.records import RecordArrow, Written
from atoll.views.export.export import Export
from atoll.views.export.files import ExportFormat, open_writer

PARQUET = "application/vnd.apache.parquet"


class ExportTold:
    """The batches of an export, one when it is asked for the next.

    Args:
        export: What is exported.
    """

    position: ClassVar[None] = None

    def __init__(self, export: Export) -> None:
        self._batches: Iterator[pa.RecordBatch] = export.batches()
        self.closed = False

    def next(self, timeout_seconds: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end."""
        del timeout_seconds
        batch = None if self.closed else next(self._batches, None)
        self.closed = batch is None
        return batch

    def close(self, error: AtollError | None = None) -> None:
        """Read no more."""
        del error
        self.closed = True


class ExportArrow(RecordArrow):
    """An Arrow stream, whose schema has the metadata."""

    def piece(self, told: pa.RecordBatch) -> bytes:
        """A batch."""
        return self._batch(told, {})


class ExportParquet:
    """A Parquet file; it has an end only when it is whole.

    Args:
        schema: The columns.
    """

    media_type: ClassVar[str] = PARQUET

    def __init__(self, schema: pa.Schema) -> None:
        self._written = Written()
        self._writer = open_writer(self._written, ExportFormat.PARQUET, schema)

    def head(self) -> bytes:
        """How the file begins."""
        return self._written.taken()

    def piece(self, told: pa.RecordBatch) -> bytes:
        """A row group."""
        self._writer.write_batch(told)
        return self._written.taken()

    def alive(self, position: str | None) -> bytes:
        """Nothing: a file has no silence."""
        del position
        return b""

    def problem(self, error: AtollError) -> bytes:
        """Nothing more: what has no end is no Parquet file, and is refused by whoever opens it."""
        del error
        return b""

    def end(self) -> bytes:
        """The end of the file."""
        self._writer.close()
        return self._written.taken()
