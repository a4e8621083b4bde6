"""The bytes of one stored row of cells: fixed cells first, then the others.

====================  =====================================================================
cells                 bytes
====================  =====================================================================
one of 8 bytes        8 bytes little-endian; null is ``b""``
one str               UTF-8; null is ``FF``, which no UTF-8 holds
one bytes             ``01`` and the bytes; null is ``00``
one opaque            the msgpack bytes; null is msgpack's nil, ``C0``
others                null bitmap (bit i % 8 of byte i // 8), the fixed cells in order (8 bytes
                      each, 16 for a decimal; zero where null), for each other cell where its
                      payload ends (4 bytes, from the first payload on), the payloads
====================  =====================================================================

A cell's *plain form* is what the bytes hold: days for a date, microseconds for an instant, 0 or
1 for a bool, units of 10**-18 for a decimal, msgpack bytes for an opaque one. :class:`RowLayout`
takes plain forms row by row, and Arrow columns in bulk (with numpy), to the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.arrow_types import OPAQUE, SCALAR_TYPES
from atoll.codec.binary import (
    BINARY,
    Bytes,
    Positions,
    binary_from_list,
    binary_parts,
    expand,
    join_columns,
    list_from_binary,
    list_from_matrix,
    matrix_as_binary,
    present_rows,
    take_slices,
    take_words,
)
from atoll.errors import StateError

CELL_TYPES: dict[str, pa.DataType] = {**SCALAR_TYPES, "opaque": OPAQUE}
"""The Arrow type of a column of each kind of cell."""

_WIDTHS = {"int": 8, "float": 8, "bool": 8, "date": 8, "datetime": 8, "decimal": 16}
_STRUCT_CODES = {"int": "q", "float": "d", "bool": "q", "date": "q", "datetime": "q"}
_SINGLE_NULLS = {"str": b"\xff", "bytes": b"\x00", "opaque": b"\xc0"}
_END_WIDTH = 4
_PAYLOAD_MAX = 2**32 - 1


class RowLayout:
    """How rows of these cells become bytes, one row or whole columns at a time.

    Args:
        kinds: The kind of each cell, a key of :data:`CELL_TYPES`.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self._single = self.kinds[0] if len(self.kinds) == 1 else None
        if self._single == "decimal":
            self._single = None
        self._bitmap_width = (len(self.kinds) + 7) // 8
        self._starts: dict[int, int] = {}
        position = self._bitmap_width
        for index, kind in enumerate(self.kinds):
            if kind in _WIDTHS:
                self._starts[index] = position
                position += _WIDTHS[kind]
        self._loose = [i for i, kind in enumerate(self.kinds) if kind not in _WIDTHS]
        self._ends_start = position
        self._head_width = position + _END_WIDTH * len(self._loose)

    # --- one row --------------------------------------------------------------------------

    def encode_row(self, cells: Sequence[Any]) -> bytes:
        """The bytes of one row of plain forms; None is null."""
        if self._single is not None:
            return _encode_single(self._single, cells[0])
        bitmap = 0
        fixed: list[Any] = []
        payloads: list[bytes] = []
        ends: list[int] = []
        total = 0
        for index, (kind, cell) in enumerate(zip(self.kinds, cells, strict=True)):
            bitmap |= (cell is None) << index
            if kind == "decimal":
                units = (cell or 0) & ((1 << 128) - 1)
                fixed += (units & 0xFFFF_FFFF_FFFF_FFFF, units >> 64)
            elif kind in _WIDTHS:
                fixed.append(0 if cell is None else cell)
            else:
                payload = b"" if cell is None else cell.encode() if kind == "str" else cell
                payloads.append(payload)
                total += len(payload)
                ends.append(total)
        _check_payload(total)
        head = self._head.pack(bitmap.to_bytes(self._bitmap_width, "little"), *fixed, *ends)
        return b"".join((head, *payloads))

    def decode_row(self, data: bytes | memoryview) -> list[Any]:
        """The plain forms of one row.

        Raises:
            StateError: When the bytes are no such row.
        """
        try:
            if self._single is not None:
                return [_decode_single(self._single, data)]
            return self._decode_cells(bytes(data))
        except (struct.error, ValueError) as error:
            raise _damaged(data) from error

    def _decode_cells(self, data: bytes) -> list[Any]:
        bitmap_bytes, *numbers = self._head.unpack_from(data)
        bitmap = int.from_bytes(bitmap_bytes, "little")
        ends = numbers[len(numbers) - len(self._loose) :]
        if self._head_width + (ends[-1] if ends else 0) != len(data):
            raise ValueError(len(data))
        fixed = iter(numbers)
        start = 0
        loose = iter(ends)
        cells: list[Any] = []
        for index, kind in enumerate(self.kinds):
            if kind == "decimal":
                cell: Any = next(fixed) + (_signed_64(next(fixed)) << 64)
            elif kind in _WIDTHS:
                cell = next(fixed)
            else:
                end = next(loose)
                payload = data[self._head_width + start : self._head_width + end]
                cell = payload.decode() if kind == "str" else payload
                start = end
            cells.append(None if bitmap >> index & 1 else cell)
        return cells

    @cached_property
    def _head(self) -> struct.Struct:
        codes = [
            "QQ" if kind == "decimal" else _STRUCT_CODES[kind]
            for kind in self.kinds
            if kind in _WIDTHS
        ]
        return struct.Struct(f"<{self._bitmap_width}s{''.join(codes)}{'I' * len(self._loose)}")

    # --- whole columns --------------------------------------------------------------------

    def encode_columns(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """The bytes of each row; the columns have the types of :data:`CELL_TYPES`."""
        if self._single is not None:
            return _encode_single_column(self._single, columns[0])
        rows = len(columns[0])
        head = np.zeros((rows, self._head_width), np.uint8)
        for index, column in enumerate(columns):
            if column.null_count:
                absent = ~present_rows(column)
                head[:, index // 8] |= absent.astype(np.uint8) << np.uint8(index % 8)
        for index, start in self._starts.items():
            width = _WIDTHS[self.kinds[index]]
            head[:, start : start + width] = _fixed_bytes(self.kinds[index], columns[index])
        if not self._loose:
            return list_from_matrix(head)
        payloads = [
            columns[index].cast(BINARY).fill_null(pa.scalar(b"", BINARY)) for index in self._loose
        ]
        ends = np.zeros(rows, np.int64)
        for number, payload in enumerate(payloads):
            ends += np.diff(binary_parts(payload)[1])
            _check_payload(int(ends.max(initial=0)))
            start = self._ends_start + _END_WIDTH * number
            head[:, start : start + _END_WIDTH] = _as_bytes(ends.astype("<u4"))
        return list_from_binary(join_columns([matrix_as_binary(head), *payloads]))

    def decode_columns(self, values: Sequence[bytes | None]) -> list[pa.Array]:
        """The columns of these rows; a None in place of a row is null in every column.

        Raises:
            StateError: When some bytes are no such row.
        """
        if self._single is not None:
            return [_decode_single_column(self._single, values)]
        rows = binary_from_list(values)
        data, offsets = binary_parts(rows)
        present = present_rows(rows)
        starts = offsets[:-1][present]
        lengths = np.diff(offsets)[present]
        self._check_rows(data, starts, lengths, values)
        columns = []
        previous = np.zeros(len(starts), np.int64)
        loose = 0
        for index, kind in enumerate(self.kinds):
            absent = (data[starts + index // 8] >> np.uint8(index % 8) & 1).astype(np.bool_)
            if kind in _WIDTHS:
                column = _fixed_column(kind, data, starts + self._starts[index], absent)
            else:
                end_position = starts + self._ends_start + _END_WIDTH * loose
                ends = take_words(data, end_position, "<u4").astype(np.int64)
                slices = take_slices(data, starts + self._head_width + previous, ends - previous)
                column = _masked(slices, absent).cast(CELL_TYPES[kind])
                previous = ends
                loose += 1
            columns.append(expand(column, present))
        return columns

    def _check_rows(
        self, data: Bytes, starts: Positions, lengths: Positions, values: Sequence[bytes | None]
    ) -> None:
        wrong = lengths < self._head_width
        if not wrong.any():
            ends = np.zeros(len(starts), np.int64)
            for number in range(len(self._loose)):
                position = starts + self._ends_start + _END_WIDTH * number
                previous, ends = ends, take_words(data, position, "<u4").astype(np.int64)
                wrong |= ends < previous
            wrong |= ends + self._head_width != lengths
        if wrong.any():
            rows = [value for value in values if value is not None]
            raise _damaged(rows[int(np.flatnonzero(wrong)[0])])


# --- one cell alone ------------------------------------------------------------------------


def _encode_single(kind: str, cell: Any) -> bytes:
    if cell is None:
        return _SINGLE_NULLS.get(kind, b"")
    if kind == "float":
        return _DOUBLE.pack(cell)
    if kind in _WIDTHS:
        return int(cell).to_bytes(8, "little", signed=True)
    if kind == "bytes":
        return b"\x01" + bytes(cell)
    encoded: bytes = cell.encode() if kind == "str" else cell
    return encoded


def _decode_single(kind: str, data: bytes | memoryview) -> Any:
    if data == _SINGLE_NULLS.get(kind, b""):
        return None
    if kind == "float":
        return _DOUBLE.unpack(data)[0]
    if kind in _WIDTHS:
        return _LONG.unpack(data)[0]
    if kind == "bytes":
        if data[0] != 1:
            raise ValueError(data[0])
        return bytes(data[1:])
    return str(data, "utf-8") if kind == "str" else bytes(data)


_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")


def _encode_single_column(kind: str, column: pa.Array) -> list[bytes]:
    if kind in _WIDTHS:
        values = list_from_matrix(_fixed_bytes(kind, column))
        if column.null_count:
            for row in np.flatnonzero(~present_rows(column)).tolist():
                values[row] = b""
        return values
    payloads = column.cast(BINARY)
    if kind == "bytes":
        payloads = join_columns([pa.scalar(b"\x01", BINARY), payloads])
    return list_from_binary(payloads.fill_null(pa.scalar(_SINGLE_NULLS[kind], BINARY)))


def _decode_single_column(kind: str, values: Sequence[bytes | None]) -> pa.Array:
    rows = binary_from_list(values)
    data, offsets = binary_parts(rows)
    if kind in _WIDTHS:
        lengths = np.diff(offsets)
        present = lengths > 0
        wrong = present & (lengths != 8)  # noqa: PLR2004 - the width of a fixed cell
        if wrong.any():
            raise _damaged(values[int(np.flatnonzero(wrong)[0])] or b"")
        numbers = np.zeros(len(rows), "<i8")
        numbers[present] = data[offsets[0] : offsets[-1]].view("<i8")
        return _typed(kind, numbers, ~present)
    if kind == "bytes":
        return _strip_markers(data, offsets, values).cast(CELL_TYPES[kind])
    null = pc.equal(rows, pa.scalar(_SINGLE_NULLS[kind], BINARY))
    payloads = pc.if_else(null, pa.scalar(None, BINARY), rows)
    try:
        return payloads.cast(CELL_TYPES[kind])
    except pa.ArrowInvalid as error:
        raise StateError(
            "stored text is no UTF-8", hint="it was damaged, or written under another schema"
        ) from error


def _strip_markers(data: Bytes, offsets: Positions, values: Sequence[bytes | None]) -> pa.Array:
    """The bytes after each row's marker; null where the marker says so, or there is no row."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    markers = np.zeros(len(starts), np.uint8)
    given = lengths > 0
    markers[given] = data[starts[given]]
    present = markers == 1
    wrong = given & ~present & ((markers != 0) | (lengths != 1))
    if wrong.any():
        raise _damaged(values[int(np.flatnonzero(wrong)[0])] or b"")
    payloads = take_slices(data, starts + present, np.where(present, lengths - 1, 0))
    return _masked(payloads, ~present)


# --- fixed cells ---------------------------------------------------------------------------


def _as_bytes(numbers: NDArray[Any]) -> Bytes:
    return numbers.view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)


def _fixed_bytes(kind: str, column: pa.Array) -> Bytes:
    if kind == "decimal":
        raw = np.frombuffer(column.buffers()[1], np.uint8)
        first = 16 * column.offset
        matrix = raw[first : first + 16 * len(column)].reshape(len(column), 16)
        return np.where(present_rows(column)[:, None], matrix, np.uint8(0))
    if kind == "float":
        floats = column.fill_null(0.0) if column.null_count else column
        return _as_bytes(np.ascontiguousarray(floats.to_numpy(), "<f8"))
    if kind == "date":
        column = column.cast(pa.int32())
    integers = column.cast(pa.int64())
    integers = integers.fill_null(0) if integers.null_count else integers
    return _as_bytes(np.ascontiguousarray(integers.to_numpy(), "<i8"))


def _fixed_column(
    kind: str, data: Bytes, positions: Positions, absent: NDArray[np.bool_]
) -> pa.Array:
    if kind == "decimal":
        halves = np.empty((len(positions), 2), "<u8")
        halves[:, 0] = take_words(data, positions, "<u8")
        halves[:, 1] = take_words(data, positions + 8, "<u8")
        buffers = [None, pa.py_buffer(halves)]
        units = pa.Array.from_buffers(CELL_TYPES[kind], len(positions), buffers)
        return _masked(units, absent)
    return _typed(kind, take_words(data, positions, "<i8").astype("<i8"), absent)


def _typed(kind: str, numbers: NDArray[Any], absent: NDArray[np.bool_]) -> pa.Array:
    mask = absent if absent.any() else None
    if kind == "float":
        return pa.array(numbers.view("<f8"), mask=mask, from_pandas=False)
    integers = pa.array(numbers, mask=mask)
    if kind == "date":
        integers = integers.cast(pa.int32())
    return integers.cast(CELL_TYPES[kind])


def _masked(column: pa.Array, absent: NDArray[np.bool_]) -> pa.Array:
    if not absent.any():
        return column
    return pc.if_else(pa.array(absent), pa.scalar(None, column.type), column)


def _signed_64(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _check_payload(length: int) -> None:
    if length > _PAYLOAD_MAX:
        raise StateError(
            f"a value of {length} bytes is too large", hint="keep values far below 4 GiB"
        )


def _damaged(data: bytes | memoryview) -> StateError:
    return StateError(
        "these bytes are no value of this schema",
        hint="they were damaged, or written under another schema",
        value=bytes(data[:64]).hex(),
    )
