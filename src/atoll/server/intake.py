"""From a request's body to checked records, piece by piece.

Three shapes are streamed in bounded memory: NDJSON (a record a line), CSV (with a header line)
and an Arrow stream. A JSON body (one record, or an array) is small by the body limit and is
checked in one piece. Whatever the shape, refused records carry the number of their line, or of
their place in the array or stream, counting from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.depot import Producer
from atoll.depot.append.texts import csv_rows, json_lines
from atoll.depot.producers.table import OWN_PREFIXES
from atoll.errors import UsageError
from atoll.server.body import BodyFile
from atoll.server.guard import ARROW_STREAM, CSV, NDJSON

_ID_HEADER = "atoll-producer-id"
_SEQUENCE_HEADER = "atoll-producer-sequence"
_EPOCH_HEADER = "atoll-producer-epoch"
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
    if name.startswith(OWN_PREFIXES):
        raise UsageError(
            f"producers whose id begins with {' or '.join(OWN_PREFIXES)} are Atoll's own",
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
    return json_lines(codec, body.read, line_bytes_max)


def _csv(codec: RecordCodec, body: BodyFile, line_bytes_max: int) -> Iterator[Checked]:
    return csv_rows(codec, body.read, line_bytes_max)


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
