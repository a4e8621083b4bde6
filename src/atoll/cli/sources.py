"""Where an append's records come from: files, stdin, arguments; as bodies to send piece by piece.

A file is never loaded as a whole: JSONL and CSV travel as they are, gzip is undone on the way, and
Parquet is read batch by batch into an Arrow stream.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from atoll.depot.formats import Format, format_of, unpacked
from atoll.errors import NotFoundError, StorageError, UsageError

_CHUNK_BYTES = 256 << 10
_PARQUET_ROWS = 8_192

NDJSON = "application/x-ndjson"
CSV = "text/csv"
ARROW_STREAM = "application/vnd.apache.arrow.stream"


Progress = Callable[[int], None]
"""Told how many bytes of the source have been read so far."""


@dataclass(frozen=True, slots=True)
class Source:
    """One body to send.

    Attributes:
        name: What to call it when speaking of it.
        media_type: What its bytes are.
        size_bytes: How much will be read; None where that is unknown.
        read: Begins reading, telling its progress.
    """

    name: str
    media_type: str
    size_bytes: int | None
    read: Callable[[Progress], Iterator[bytes]]


def argument_source(records: Sequence[str]) -> Source:
    """Records given as JSON arguments, one each.

    Raises:
        UsageError: When one is no JSON object.
    """
    for position, text in enumerate(records, start=1):
        try:
            good = isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            good = False
        if not good:
            raise UsageError(
                f"argument {position} is no record: {text[:80]!r}",
                hint="write records as JSON objects, '{\"v\": 1}', or name files with --file",
            )
    body = "\n".join(" ".join(text.splitlines()) for text in records).encode()

    def read(progress: Progress) -> Iterator[bytes]:
        yield body
        progress(len(body))

    return Source("arguments", NDJSON, len(body), read)


def stdin_source(kind: Format | None) -> Source:
    """Records from stdin, JSONL unless told otherwise.

    Raises:
        UsageError: For Parquet, which must be read from its end.
    """
    chosen = kind or Format.JSONL
    if chosen is Format.PARQUET:
        raise UsageError("Parquet cannot be read from stdin", hint="name the file with --file")

    def read(progress: Progress) -> Iterator[bytes]:
        return _chunks(sys.stdin.buffer, sys.stdin.buffer, progress, lambda _, total: total)

    return Source("stdin", _MEDIA_TYPES[chosen], None, read)


def file_source(file: Path, kind: Format | None) -> Source:
    """Records from a file; its format by its name unless told otherwise.

    Raises:
        NotFoundError: When there is no such file.
        UsageError: When its name does not tell the format.
    """
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}", hint="check the name", file=str(file))
    chosen = kind or format_of(file)
    if chosen is None:
        raise UsageError(
            f"the name of {file.name} does not tell its format",
            hint=f"add --format {'|'.join(Format)}",
            file=str(file),
        )

    def read(progress: Progress) -> Iterator[bytes]:
        try:
            if chosen in {Format.PARQUET, Format.ARROW}:
                yield from _columns(file, chosen, progress)
            else:
                yield from _text(file, progress)
        except OSError as error:
            raise StorageError(
                f"cannot read {file}: {error.strerror or error}",
                hint="check the file",
                file=str(file),
            ) from None

    return Source(str(file), _MEDIA_TYPES[chosen], file.stat().st_size, read)


_MEDIA_TYPES = {
    Format.JSONL: NDJSON,
    Format.CSV: CSV,
    Format.PARQUET: ARROW_STREAM,
    Format.ARROW: ARROW_STREAM,
}


def _text(file: Path, progress: Progress) -> Iterator[bytes]:
    with file.open("rb") as raw:
        try:
            yield from _chunks(unpacked(raw), raw, progress, lambda file, _: file.tell())
        except EOFError:
            raise OSError("the gzip stream ends early") from None


def _chunks(
    content: IO[bytes],
    counted: IO[bytes],
    progress: Progress,
    position: Callable[[IO[bytes], int], int],
) -> Iterator[bytes]:
    total = 0
    while chunk := content.read(_CHUNK_BYTES):
        yield chunk
        total += len(chunk)
        progress(position(counted, total))


def _columns(file: Path, kind: Format, progress: Progress) -> Iterator[bytes]:
    """A Parquet or Arrow file as an Arrow stream, batch by batch."""
    import pyarrow as pa

    from atoll.depot.files import table_batches

    try:
        with file.open("rb") as raw:

            def counted(batches: Iterator[Any]) -> Iterator[Any]:
                for batch in batches:
                    yield batch
                    progress(raw.tell())

            schema, batches = table_batches(raw, kind, _PARQUET_ROWS)
            yield from _stream(schema, counted(batches))
    except pa.ArrowException as error:
        raise UsageError(
            f"{file} is no {kind.capitalize()} file: {error}", hint="name its format with --format"
        ) from None


def _stream(schema: Any, batches: Iterator[Any]) -> Iterator[bytes]:
    """The bytes of an Arrow stream, as they come about."""
    import pyarrow as pa

    written = _Written()
    with pa.ipc.new_stream(pa.PythonFile(written, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield written.take()
    yield written.take()


class _Written:
    """A file to write to, whose content is taken out as it grows."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        """Keep the bytes; the buffer they come in is reused."""
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing lies anywhere else."""

    def take(self) -> bytes:
        """Everything written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
