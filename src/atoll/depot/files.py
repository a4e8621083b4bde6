"""Files of records, read and checked in bounded memory: JSON lines, CSV, Parquet.

JSON lines and CSV may be gzipped. Lines are those of the file, from 1; a Parquet file's "lines"
are its rows.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.errors import UsageError
from atoll.storage.local import storage_errors

__all__ = ["FileSource", "file_format"]

_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_READ_BYTES = 1024 * 1024
_LINE_BYTES_MAX = 64 * 1024 * 1024
_CELL_ROWS = 8192
_ARROW_ROWS = 65_536
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"


def file_format(path: Path | str, declared: str | None = None) -> str:
    """``jsonl``, ``csv`` or ``parquet``: as declared, else by the name's ending.

    Raises:
        UsageError: When neither tells.
    """
    if declared is not None:
        name = declared.lower().removesuffix(".gz")
        found = _FORMATS.get(f".{name}")
    else:
        path = Path(path)
        if path.suffix.lower() in {".gz", ".gzip"}:
            path = path.with_suffix("")
        found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise UsageError(
            "which format the file has is not clear",
            hint="name it: jsonl, csv or parquet",
            file=str(path),
            format=declared,
        )
    return found


class FileSource:
    """A file's records, checked chunk by chunk; iterate it once.

    Args:
        path: The file.
        codec: Checks the records.
        format: ``jsonl``, ``csv`` or ``parquet``; by default the name's ending tells.

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
            if self.format == "parquet":
                yield from self._parquet(raw)
            else:
                yield from self._text(raw)
        self.bytes_read = self.bytes_total

    def _text(self, raw: IO[bytes]) -> Iterator[Checked]:
        zipped = raw.read(2) == _GZIP_MAGIC
        raw.seek(0)
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
        try:
            yield from (
                self._json_lines(stream, raw) if self.format == "jsonl" else self._csv(stream, raw)
            )
        except (EOFError, gzip.BadGzipFile) as error:
            raise UsageError(
                f"the file's compression is damaged: {error}", file=str(self.path)
            ) from error

    def _json_lines(self, stream: IO[bytes], raw: IO[bytes]) -> Iterator[Checked]:
        line, rest = 1, b""
        at_start = True
        while data := stream.read(_READ_BYTES):
            if at_start:
                data, at_start = data.removeprefix(_BYTE_ORDER_MARK), False
            cut = data.rfind(b"\n") + 1
            if cut == 0:
                rest += data
                self._check_line_length(rest, line)
                continue
            whole, rest = rest + data[:cut], data[cut:]
            self.bytes_read = raw.tell()
            yield self.codec.from_json_lines(whole, line)
            line += whole.count(b"\n")
        if rest:
            yield self.codec.from_json_lines(rest, line)

    def _check_line_length(self, rest: bytes, line: int) -> None:
        if len(rest) > _LINE_BYTES_MAX:
            raise UsageError(
                f"a line is longer than {_LINE_BYTES_MAX} bytes",
                hint="JSON lines have one record a line: is this one JSON document?",
                file=str(self.path),
                line=line,
            )

    def _csv(self, stream: IO[bytes], raw: IO[bytes]) -> Iterator[Checked]:
        # what is not UTF-8 becomes lone surrogates, which the codec refuses record by record
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, strict=True)
        try:
            columns = next(reader, None)
            if columns is None:
                return
            rows = self._numbered(reader)
            while chunk := list(islice(rows, _CELL_ROWS)):
                self.bytes_read = raw.tell()
                lines, cells = zip(*chunk, strict=True)
                yield self.codec.from_cells(columns, cells, lines)
        except csv.Error as error:
            raise UsageError(
                f"the file is no CSV: {error}", file=str(self.path), line=reader.line_num
            ) from error
        finally:
            text.detach()

    @staticmethod
    def _numbered(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
        """Each row with the line it begins at; empty lines are stepped over."""
        line = reader.line_num + 1  # type: ignore[attr-defined]
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1  # type: ignore[attr-defined]

    def _parquet(self, raw: IO[bytes]) -> Iterator[Checked]:
        try:
            file = pyarrow.parquet.ParquetFile(raw, pre_buffer=False)
            line = 1
            for batch in file.iter_batches(_ARROW_ROWS):
                self.bytes_read = raw.tell()
                yield self.codec.from_arrow(batch, line)
                line += batch.num_rows
        except pa.ArrowException as error:
            raise UsageError(f"the file is no Parquet: {error}", file=str(self.path)) from error
