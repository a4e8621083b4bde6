"""From a request's body to checked records, piece by piece.

Three shapes are streamed in bounded memory: NDJSON (a record a line), CSV (with a header line)
and an Arrow stream. A JSON body (one record, or an array) is small by the body limit and is
checked in one piece. Whatever the shape, refused records carry the number of their line, or of
their place in the array or stream, counting from 1.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from atoll.codec.records.codec import Checked, RecordCodec
from atoll.depot import Producer
from atoll.depot.producers.table import TOPOLOGY_PREFIX
from atoll.errors import UsageError
from atoll.server.body import BodyFile
from atoll.server.guard import ARROW_STREAM, CSV, NDJSON

__all__ = ["BATCHES_OF", "batches_of_json", "producer_of"]

_ID_HEADER = "atoll-producer-id"
_SEQUENCE_HEADER = "atoll-producer-sequence"
_EPOCH_HEADER = "atoll-producer-epoch"
_BLOCK_BYTES = 1 << 20
_CSV_ROWS = 8_192
_DIGITS_MAX = 20

_records = msgspec.json.Decoder(list[msgspec.Raw])
_record = msgspec.json.Decoder(msgspec.Raw)


def producer_of(headers: Mapping[str, str]) -> Producer | None:
    """Who appends, by the request's headers; None without them.

    Raises:
        UsageError: When they contradict each other, or name a producer of Atoll's own.
    """
    name, sequence = headers.get(_ID_HEADER), headers.get(_SEQUENCE_HEADER)
    epoch = headers.get(_EPOCH_HEADER)
    if name is None and sequence is None and epoch is None:
        return None
    if name is None or sequence is None:
        raise UsageError(
            "a producer needs both its id and the append's number",
            hint="send Atoll-Producer-Id and Atoll-Producer-Sequence together",
        )
    if name.startswith(TOPOLOGY_PREFIX):
        raise UsageError(
            f"producers whose id begins with {TOPOLOGY_PREFIX!r} are Atoll's own",
            hint="choose another id",
        )
    number, life = _whole_number(sequence), _whole_number(epoch or "0")
    return Producer(name, number, life)


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise UsageError(
            f"{text[:40]!r} is no producer's number", hint="send a whole number from 0 up"
        )
    return int(text)


def batches_of_json(codec: RecordCodec, body: bytes) -> Iterator[Checked]:
    """One record or an array of records; each is checked as a line of NDJSON is.

    Raises:
        UsageError: When the body is no JSON.
    """
    text = body.strip()
    try:
        raws = _records.decode(text) if text.startswith(b"[") else [_record.decode(text)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the body is no JSON: {error}", hint="send one object or an array of objects"
        ) from None
    # Newlines inside a JSON value are only white space: a newline in a string is escaped.
    lines = (bytes(raw).replace(b"\n", b" ").replace(b"\r", b" ") for raw in raws)
    yield codec.from_json_lines(b"\n".join(lines), 1)


def _ndjson(codec: RecordCodec, body: BodyFile, line_bytes_max: int) -> Iterator[Checked]:
    line = 1
    for block in body.blocks(_BLOCK_BYTES, line_bytes_max):
        yield codec.from_json_lines(block, line)
        line += block.count(b"\n")


def _csv(codec: RecordCodec, body: BodyFile, line_bytes_max: int) -> Iterator[Checked]:
    reader = csv.reader(_text_lines(body, line_bytes_max), strict=True)
    try:
        columns: list[str] = next(reader, [])
        rows = _numbered(reader)
        while part := list(itertools.islice(rows, _CSV_ROWS)):
            lines, cells = zip(*part, strict=True)
            yield codec.from_cells(columns, cells, lines)
    except csv.Error as error:
        raise UsageError(
            f"the body is no CSV: {error}",
            hint="separate cells by commas, quote with double quotes, name columns in line 1",
            line=reader.line_num,
        ) from None


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line that it begins on; blank lines are stepped over."""
    before = reader.line_num
    for row in reader:
        if row:
            yield before + 1, row
        before = reader.line_num


def _text_lines(body: BodyFile, line_bytes_max: int) -> Iterator[str]:
    """The body's lines with their ends; bytes that are no UTF-8 stay to be refused per record."""
    first = True
    for block in body.blocks(_BLOCK_BYTES, line_bytes_max):
        text = block.decode("utf-8", "surrogateescape")
        if first:
            text = text.removeprefix("\ufeff")
            first = False
        yield from io.StringIO(text, newline="")


def _arrow(codec: RecordCodec, body: BodyFile, line_bytes_max: int) -> Iterator[Checked]:
    del line_bytes_max  # it has no lines
    line = 1
    for batch in _arrow_batches(body):
        yield codec.from_arrow(batch, line)
        line += batch.num_rows


def _arrow_batches(body: BodyFile) -> Iterator[pa.RecordBatch]:
    """The batches of the stream, each checked in full: what comes from outside may lie."""
    try:
        with pa.ipc.open_stream(pa.PythonFile(body, mode="r")) as reader:
            for batch in reader:
                batch.validate(full=True)
                yield batch
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"the body is no Arrow stream: {error}",
            hint="write it with pyarrow.ipc.new_stream and send it whole",
        ) from None


BATCHES_OF: dict[str, Callable[[RecordCodec, BodyFile, int], Iterator[Checked]]] = {
    NDJSON: _ndjson,
    CSV: _csv,
    ARROW_STREAM: _arrow,
}
"""For each streamed content type the function that checks its records."""
