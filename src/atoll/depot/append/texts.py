"""JSON lines and CSV, read in blocks of whole lines and checked in bounded memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.errors import UsageError

_BLOCK_BYTES = 1 << 20
_CSV_ROWS = 8_192
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Read = Callable[[int], bytes]
"""Reads so many bytes, fewer only at the end."""


def json_lines(
    codec: RecordCodec, read: Read, line_bytes_max: int, **place: Any
) -> Iterator[Checked]:
    """The records of JSON lines; refusals name the line, from 1.

    Args:
        codec: Checks them.
        read: Where they come from.
        line_bytes_max: How long a line may be.
        **place: What to say in errors of where they come from.

    Raises:
        UsageError: When a line is longer.
    """
    line = 1
    for block in _blocks(read, line_bytes_max, place):
        yield codec.from_json_lines(block, line)
        line += block.count(b"\n")


def csv_rows(
    codec: RecordCodec, read: Read, line_bytes_max: int, **place: Any
) -> Iterator[Checked]:
    """The records of CSV with a header line; refusals name the line that a record begins on.

    Args:
        codec: Checks them.
        read: Where they come from.
        line_bytes_max: How long a line may be.
        **place: What to say in errors of where they come from.

    Raises:
        UsageError: When a line is longer, or it is no CSV as a whole.
    """
    reader = csv.reader(_text_lines(_blocks(read, line_bytes_max, place)), strict=True)
    try:
        columns: list[str] = next(reader, [])
        rows = _numbered(reader)
        while part := list(islice(rows, _CSV_ROWS)):
            lines, cells = zip(*part, strict=True)
            yield codec.from_cells(columns, cells, lines)
    except csv.Error as error:
        raise UsageError(
            f"this is no CSV: {error}",
            hint="separate cells by commas, quote with double quotes, name columns in line 1",
            **place,
            line=reader.line_num,
        ) from None


def _blocks(read: Read, line_bytes_max: int, place: dict[str, Any]) -> Iterator[bytes]:
    """All of it, in blocks that end where a line ends."""
    line, rest, at_start = 1, b"", True
    while data := read(_BLOCK_BYTES):
        if at_start:
            data, at_start = data.removeprefix(_BYTE_ORDER_MARK), False
        cut = data.rfind(b"\n") + 1
        if cut:
            block = rest + data[:cut]
            line += block.count(b"\n")
            yield block
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > line_bytes_max:
            raise UsageError(
                f"a line is longer than {line_bytes_max} bytes",
                hint="one record stands on one line, lines end with a newline",
                **place,
                line=line,
            )
    if rest:
        yield rest


def _text_lines(blocks: Iterator[bytes]) -> Iterator[str]:
    """The lines with their ends; bytes that are no UTF-8 stay, to be refused record by record."""
    for block in blocks:
        yield from io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line that it begins on; blank lines are stepped over."""
    before = reader.line_num
    for row in reader:
        if row:
            yield before + 1, row
        before = reader.line_num
