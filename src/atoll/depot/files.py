"""Files of records, read and checked in bounded memory: JSON lines, CSV, Parquet, Arrow.

JSON lines and CSV may be gzipped. Lines are those of the file, from 1; the "lines" of Parquet and
Arrow are rows.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.depot.append.texts import csv_rows, json_lines
from atoll.depot.formats import Format, format_of, unpacked
from atoll.errors import UsageError
from atoll.storage.local import storage_errors

_LINE_BYTES_MAX = 64 * 1024 * 1024
_ARROW_ROWS = 65_536


def file_format(path: Path | str, declared: str | None = None) -> Format:
    """The format of a file: as declared, else by the name's ending.

    Raises:
        UsageError: When neither tells.
    """
    found = format_of(Path(path) if declared is None else Path(f"records.{declared}"))
    if found is None:
        raise UsageError(
            "which format the file has is not clear",
            hint=f"name it: {', '.join(Format)}",
            file=str(path),
            format=declared,
        )
    return found


class FileSource:
    """A file's records, checked chunk by chunk; iterate it once.

    Args:
        path: The file.
        codec: Checks the records.
        format: One of :class:`~atoll.depot.formats.Format`; by default the name's ending tells.

    Attributes:
        bytes_total: The file's size.
        bytes_read: How much of it has been read so far; for a progress bar.

    Raises:
        UsageError: When there is no such file, or its format is not clear.
    """

    def __init__(self, path: Path | str, codec: RecordCodec, format: str | None = None) -> None:  # noqa: A002
        """Look at the file, read nothing."""
        self.path = Path(path)
        self.codec = codec
        self.format = file_format(self.path, format)
        if not self.path.is_file():
            raise UsageError("there is no such file", hint="check the path", file=str(path))
        self.bytes_total = self.path.stat().st_size
        self.bytes_read = 0

    def __iter__(self) -> Iterator[Checked]:
        """Read and check the file.

        Raises:
            UsageError: When the file is not of its format as a whole.
            StorageError: When the disk fails.
        """
        with storage_errors(self.path), self.path.open("rb") as raw:
            for checked in records_of(raw, self.codec, self.format, file=str(self.path)):
                self.bytes_read = raw.tell()
                yield checked
        self.bytes_read = self.bytes_total


def records_of(raw: IO[bytes], codec: RecordCodec, kind: Format, **place: Any) -> Iterator[Checked]:
    """The records of an open file, checked chunk by chunk.

    Args:
        raw: The file, from its beginning.
        codec: Checks the records.
        kind: Its format.
        **place: What to say in errors of where it lies.

    Raises:
        UsageError: When the file is not of its format as a whole.
    """
    read = _text if kind in {Format.JSONL, Format.CSV} else _columns
    return read(raw, codec, kind, place)


def _text(
    raw: IO[bytes], codec: RecordCodec, kind: Format, place: dict[str, Any]
) -> Iterator[Checked]:
    read = json_lines if kind is Format.JSONL else csv_rows
    try:
        content = unpacked(raw)
        yield from read(codec, content.read, _LINE_BYTES_MAX, **place)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"the file's compression is damaged: {error}", **place) from error


def _columns(
    raw: IO[bytes], codec: RecordCodec, kind: Format, place: dict[str, Any]
) -> Iterator[Checked]:
    line = 1
    try:
        for batch in table_batches(raw, kind, _ARROW_ROWS)[1]:
            if kind is Format.ARROW:
                batch.validate(full=True)  # its offsets may lie, and Arrow would follow them
            yield codec.from_arrow(batch, line)
            line += batch.num_rows
    except pa.ArrowException as error:
        raise UsageError(f"the file is no {kind.capitalize()}: {error}", **place) from error


def table_batches(
    raw: IO[bytes], kind: Format, rows: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of a Parquet file, of an Arrow file or of an Arrow stream.

    Args:
        raw: The file.
        kind: Which of them it is.
        rows: How many rows a batch of Parquet has; those of Arrow are as they were written.

    Raises:
        pa.ArrowException: When it is none, then or as it is read.
    """
    if kind is Format.PARQUET:
        file = pyarrow.parquet.ParquetFile(raw, pre_buffer=False)
        return file.schema_arrow, file.iter_batches(rows)
    is_file = raw.read(6) == b"ARROW1"
    raw.seek(0)
    if is_file:
        reader = pa.ipc.open_file(raw)
        return reader.schema, map(reader.get_batch, range(reader.num_record_batches))
    stream = pa.ipc.open_stream(raw)
    return stream.schema, iter(stream)
