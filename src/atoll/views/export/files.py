"""Files of exported state: Parquet or Arrow, whole or not there."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import pyarrow as pa

from atoll.errors import UsageError
from atoll.storage.local import storage_errors


class ExportFormat(StrEnum):
    """What a file of exported state is."""

    PARQUET = "parquet"
    ARROW = "arrow"


_ENDINGS = {
    ".parquet": ExportFormat.PARQUET,
    ".arrow": ExportFormat.ARROW,
    ".feather": ExportFormat.ARROW,
}


def format_named(file: Path | str, declared: str | None) -> ExportFormat:
    """The format of a file: as declared, else by the name's ending.

    Raises:
        UsageError: When neither tells.
    """
    known = ", ".join(ExportFormat)
    if declared is not None:
        if declared not in set(ExportFormat):
            raise UsageError(f"nothing is exported as {declared!r}", hint=f"use one of {known}")
        return ExportFormat(declared)
    found = _ENDINGS.get(Path(file).suffix.lower())
    if found is None:
        raise UsageError(
            "which format the file is to have is not clear",
            hint=f"name it {known}, or let the name end like that: state.parquet",
            file=str(file),
        )
    return found


def write_file(
    file: Path, kind: ExportFormat, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    """Write batches to a file; returns how many rows they had.

    It is written beside its place and moved there when it is whole.

    Raises:
        StorageError: When the disk refuses.
    """
    temporary = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    rows = 0
    with storage_errors(file):
        try:
            with open_writer(str(temporary), kind, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(file)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    return rows


def open_writer(
    sink: object, kind: ExportFormat, schema: pa.Schema
) -> pa.ipc.RecordBatchFileWriter | pa.parquet.ParquetWriter:
    """What writes batches to a file or an open stream."""
    if kind is ExportFormat.ARROW:
        return pa.ipc.new_file(sink, schema)
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema)
