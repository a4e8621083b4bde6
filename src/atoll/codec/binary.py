"""Columns of byte strings, moved in bulk between Python lists, numpy and Arrow.

Rows of one width are a matrix of bytes, shape (rows, width); other rows are an Arrow
``large_binary`` array (data and 64 bit offsets). Nothing here knows what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]

BINARY = pa.large_binary()


def matrix_as_binary(matrix: Bytes) -> pa.Array:
    """The matrix's rows as a binary array that shares its memory."""
    rows, width = matrix.shape
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    return pa.Array.from_buffers(BINARY, rows, buffers)


def list_from_matrix(matrix: Bytes) -> list[bytes]:
    """The matrix's rows as Python bytes."""
    rows, width = matrix.shape
    packed: list[bytes] = np.ascontiguousarray(matrix).view(f"V{width}").reshape(rows).tolist()
    return packed


def list_from_binary(array: pa.Array) -> list[bytes]:
    """A binary array without nulls as Python bytes."""
    values: list[bytes] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def binary_from_list(values: Sequence[bytes | None]) -> pa.Array:
    """The values as one binary array; None becomes null."""
    return pa.array(values, BINARY)


def binary_parts(array: pa.Array) -> tuple[Bytes, Positions]:
    """The data and the offsets (rows + 1 of them, into the data) of a binary array."""
    _, offset_buffer, data_buffer = array.buffers()
    first = array.offset
    offsets = np.frombuffer(offset_buffer, np.int64)[first : first + len(array) + 1]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    return data, offsets


def join_columns(columns: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    """The columns joined row by row; constants may be scalars. A null makes the row null."""
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", BINARY))


def take_words(data: Bytes, positions: Positions, dtype: str) -> NDArray[np.generic]:
    """The number that begins at each position, which need not be aligned.

    The caller has checked that every number lies within the data.
    """
    kind = np.dtype(dtype)
    count = max(len(data) - kind.itemsize + 1, 0)
    overlapping: NDArray[np.generic] = np.ndarray((count,), kind, data, strides=(1,))
    return overlapping[positions]


def take_slices(data: Bytes, starts: Positions, lengths: Positions) -> pa.Array:
    """A binary array of the slices of the data; the caller has checked that they lie within."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(starts - offsets[:-1], lengths)
    places += np.arange(offsets[-1], dtype=np.int64)
    taken = data[places]
    return pa.Array.from_buffers(
        BINARY, len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(taken)]
    )


def present_rows(column: pa.Array) -> NDArray[np.bool_]:
    """Which rows of the column are not null."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def expand(column: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """The column's values laid out over the present rows, in order; null in the others."""
    if len(column) == len(present):
        return column
    places = np.cumsum(present) - 1
    return column.take(pa.array(places, mask=~present))
