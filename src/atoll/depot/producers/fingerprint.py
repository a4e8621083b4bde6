"""One number for the records of an append, the same however they were cut into batches.

It tells whether an append that comes again carries what it carried the first time. Arrow's bytes
would not do: equal records may lie in memory in many ways (offsets, padding, what stands below a
null). So each column contributes plain streams: which values are there, how long they are, and
their bytes; each stream's CRC-32 runs on from batch to batch. A column without any value counts
as none, so that records are the same after columns were added to their schema.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class RecordsCrc:
    """The running CRC-32 of an append's records. Used by one thread."""

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[int, dict[str, int]] = {}
        self._streams: dict[str, int] = {}
        self._filled: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Go on with more records of the same schema."""
        self._rows += batch.num_rows
        for position, column in enumerate(batch.columns):
            self._streams = self._columns.setdefault(position, {})
            self._column(f"{position}", column)
            if column.null_count < len(column):
                self._filled.add(position)

    def value(self) -> int:
        """The CRC-32 of all records so far."""
        crc = zlib.crc32(str(self._rows).encode())
        streams = [each for at in self._filled for each in self._columns[at].items()]
        for name, stream in sorted(streams):
            crc = zlib.crc32(f"{name}:{stream};".encode(), crc)
        return crc

    def _column(self, name: str, column: Any) -> None:
        """The streams of a column or of a nested type's part."""
        # always written: a batch without nulls must look like one whose nulls lie elsewhere
        self._feed(f"{name}?", _flags(column.is_valid()))
        if column.null_count:
            column = column.drop_null()
        if len(column) == 0:
            return
        kind = column.type
        if pa.types.is_struct(kind):
            for position, part in enumerate(column.flatten()):
                self._column(f"{name}.{position}", part)
        elif pa.types.is_map(kind):
            offsets = _offsets(column)
            self._feed(f"{name}#", np.diff(offsets))
            self._column(f"{name}.k", column.keys[offsets[0] : offsets[-1]])
            self._column(f"{name}.v", column.items[offsets[0] : offsets[-1]])
        elif pa.types.is_list(kind):
            self._feed(f"{name}#", np.diff(_offsets(column)))
            self._column(f"{name}.e", column.flatten())
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :]
            offsets = offsets[: len(column) + 1]
            self._feed(f"{name}#", np.diff(offsets))
            data = column.buffers()[2]
            if data is not None:
                self._feed(name, memoryview(data)[offsets[0] : offsets[-1]])
        elif pa.types.is_boolean(kind):
            self._feed(name, _flags(column))
        else:
            self._feed(name, _fixed(column))

    def _feed(self, stream: str, data: Any) -> None:
        self._streams[stream] = zlib.crc32(data, self._streams.get(stream, 0))


def _flags(column: Any) -> NDArray[Any]:
    """A byte per boolean."""
    return np.asarray(column.cast(pa.uint8()))


def _offsets(column: Any) -> NDArray[Any]:
    return np.asarray(column.offsets)


def _fixed(column: Any) -> memoryview:
    """The bytes of values of one width."""
    width = column.type.bit_width // 8
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]
