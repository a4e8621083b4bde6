"""What files of records hold, told by their names and first bytes."""

from __future__ import annotations

import gzip
from enum import StrEnum
from pathlib import PurePath
from typing import IO, cast

_GZIP_MAGIC = b"\x1f\x8b"


class Format(StrEnum):
    """What a file holds."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
}


def format_of(path: PurePath) -> Format | None:
    """The format that a file's name tells, also behind ``.gz``; None when it tells none."""
    plain = path.with_suffix("") if path.suffix.lower() in {".gz", ".gzip"} else path
    return _SUFFIXES.get(plain.suffix.lower())


def unpacked(raw: IO[bytes]) -> IO[bytes]:
    """The file's content; gzip is told by its first bytes, whatever the file is called."""
    packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw
