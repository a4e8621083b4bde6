"""Keys of whole columns at once: the bytes of :mod:`atoll.codec.keys.elements`, without a loop.

A batch of keys is a :class:`KeyColumn`. Keys whose elements all have one width (numbers, dates,
bools, tuples of them, none of them null) are a matrix of bytes, on which hashing and sorting
are arithmetic; all others are one Arrow binary array. A property test holds every row equal to
what the scalar side writes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
)
from atoll.codec.fit_column import fit_column
from atoll.codec.keys.elements import (
    EMPTY_KEY,
    NAN_BITS,
    SIGN_BIT,
    TAG_DATE,
    TAG_DATETIME,
    TAG_FALSE,
    TAG_FLOAT,
    TAG_INT,
    TAG_NONE,
    encode_element,
)
from atoll.codec.keys.sort import crc32_rows, order_of_words, words_of
from atoll.errors import DataError, StateError
from atoll.schema import Scalar

_Piece = Any  # a matrix of bytes (rows, width), a binary array, or a binary scalar for all rows


class KeyColumn:
    """Encoded keys, one per row; immutable.

    Args:
        rows: A matrix of bytes (keys of one width), or an Arrow ``large_binary`` array.
    """

    __slots__ = ("_binary", "_keys", "_matrix", "_words")

    def __init__(self, rows: Bytes | pa.Array) -> None:
        self._matrix: Bytes | None = rows if isinstance(rows, np.ndarray) else None
        self._binary: Any = None if isinstance(rows, np.ndarray) else rows
        self._keys: list[bytes] | None = None
        self._words: list[NDArray[np.uint64]] | None = None

    @classmethod
    def from_bytes(cls, keys: Sequence[bytes]) -> KeyColumn:
        """The column of keys that are encoded already."""
        return cls(binary_from_list(keys))

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._matrix if self._matrix is not None else self._binary)

    @property
    def width(self) -> int | None:
        """The width of every key in bytes; None when the column does not know one width."""
        return None if self._matrix is None else int(self._matrix.shape[1])

    def to_bytes(self) -> list[bytes]:
        """The keys as Python bytes; the list is kept, so do not change it."""
        if self._keys is None:
            if self._matrix is not None:
                self._keys = list_from_matrix(self._matrix)
            else:
                self._keys = list_from_binary(self._binary)
        return self._keys

    def to_arrow(self) -> pa.Array:
        """The keys as an Arrow ``large_binary`` array, without copying them."""
        return self._binary if self._matrix is None else matrix_as_binary(self._matrix)

    def take(self, indices: Any) -> KeyColumn:
        """The column of the keys at these positions, in their order."""
        places = np.asarray(indices, np.int64)
        if self._matrix is not None:
            return KeyColumn(self._matrix.take(places, axis=0))
        return KeyColumn(pc.take(self._binary, pa.array(places)))

    def crc32(self) -> NDArray[np.uint32]:
        """The CRC-32 of each key, as ``zlib.crc32`` computes it."""
        if self._matrix is not None:
            return crc32_rows(self._matrix)
        return np.fromiter(map(zlib.crc32, self.to_bytes()), np.uint32, len(self))

    def sort_order(self) -> Positions:
        """The positions of the keys in key order; equal keys keep their order."""
        if self._matrix is not None:
            return order_of_words(self._key_words(), len(self))
        order: Positions = pc.array_sort_indices(self._binary).to_numpy().astype(np.int64)
        return order

    def group_starts(self, order: Any = None) -> Positions:
        """Where each run of equal keys begins, in a column that is sorted.

        Args:
            order: The sorting order, when the column itself is not sorted; the positions
                returned count along it.
        """
        rows = len(self)
        starts = np.ones(rows, np.bool_)
        if self._matrix is not None:
            starts[1:] = False
            for words in self._key_words():
                sorted_words = words if order is None else words[order]
                starts[1:] |= sorted_words[1:] != sorted_words[:-1]
        elif rows > 1:
            keys = self._binary if order is None else self.take(order).to_arrow()
            unequal = pc.not_equal(keys.slice(1), keys.slice(0, rows - 1))
            starts[1:] = unequal.to_numpy(zero_copy_only=False)
        return np.flatnonzero(starts)

    def _key_words(self) -> list[NDArray[np.uint64]]:
        if self._words is None:
            assert self._matrix is not None
            self._words = words_of(self._matrix)
        return self._words


def encode_columns(columns: Sequence[Any], kinds: Sequence[Scalar]) -> KeyColumn:
    """The keys whose elements stand in these columns, row by row.

    Args:
        columns: Arrow arrays (or chunked arrays) of one length, at least one.
        kinds: The scalar of each; narrower and otherwise encoded columns are cast.

    Raises:
        StateError: When a column's type does not fit.
        DataError: When a value cannot be kept exactly, or a null stands where none may; names the
            row and the column.
    """
    if len(columns) != len(kinds) or not columns:
        raise StateError(
            f"keys of {len(kinds)} elements got {len(columns)} columns",
            hint="give one column for each element, and at least one",
        )
    pieces: list[_Piece] = []
    for number, (column, scalar) in enumerate(zip(columns, kinds, strict=True)):
        place = f"key column {number}"
        pieces += _element_pieces(fit_column(column, scalar, place=place), scalar, place)
    return KeyColumn(_join(pieces, len(columns[0])))


def empty_keys(rows: int) -> KeyColumn:
    """A column of keys without elements."""
    return KeyColumn(np.full((rows, 1), EMPTY_KEY[0], np.uint8))


def _element_pieces(array: pa.Array, scalar: Scalar, place: str) -> list[_Piece]:
    if array.null_count == 0:
        return _ENCODERS[scalar.kind](array, scalar, place)
    present = present_rows(array)
    if not scalar.optional:
        raise DataError(
            f"{place} holds a null, which {scalar} does not allow",
            hint="drop such rows first, or declare the type as X | None",
            row=int(np.flatnonzero(~present)[0]),
        )
    pieces = _ENCODERS[scalar.kind](array.drop_null(), scalar, place)
    keys = KeyColumn(_join(pieces, int(present.sum()))).to_arrow()
    return [expand(keys, present).fill_null(pa.scalar(bytes((TAG_NONE,)), BINARY))]


def _join(pieces: Sequence[_Piece], rows: int) -> Bytes | pa.Array:
    if not any(isinstance(piece, pa.Array) for piece in pieces):
        matrices = [
            piece
            if isinstance(piece, np.ndarray)
            else np.broadcast_to(np.frombuffer(piece.as_py(), np.uint8), (rows, len(piece.as_py())))
            for piece in pieces
        ]
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1)
    if len(pieces) == 1:
        return pieces[0]
    return join_columns(
        [matrix_as_binary(piece) if isinstance(piece, np.ndarray) else piece for piece in pieces]
    )


def _constant(data: bytes) -> pa.Scalar:
    return pa.scalar(data, BINARY)


# --- elements without nulls ------------------------------------------------------------------


def _tagged(tag: int, numbers: NDArray[Any]) -> list[_Piece]:
    """The tag, then the unsigned numbers big-endian."""
    width = numbers.dtype.itemsize
    matrix = np.empty((len(numbers), width + 1), np.uint8)
    matrix[:, 0] = tag
    matrix[:, 1:] = numbers.byteswap().view(np.uint8).reshape(len(numbers), width)
    return [matrix]


def _int_pieces(array: pa.Array, _scalar: Scalar, _place: str) -> list[_Piece]:
    return _tagged(TAG_INT, array.to_numpy().view(np.uint64) ^ np.uint64(SIGN_BIT))


def _float_pieces(array: pa.Array, _scalar: Scalar, _place: str) -> list[_Piece]:
    floats = array.to_numpy()
    bits = (floats + 0.0).view(np.uint64)
    bits = np.where(np.isnan(floats), np.uint64(NAN_BITS), bits)
    negative = bits >= np.uint64(SIGN_BIT)
    return _tagged(TAG_FLOAT, np.where(negative, ~bits, bits | np.uint64(SIGN_BIT)))


def _bool_pieces(array: pa.Array, _scalar: Scalar, _place: str) -> list[_Piece]:
    tags = array.cast(pa.uint8()).to_numpy() + np.uint8(TAG_FALSE)
    return [tags.reshape(len(tags), 1)]


def _date_pieces(array: pa.Array, _scalar: Scalar, _place: str) -> list[_Piece]:
    days = array.cast(pa.int32()).to_numpy().view(np.uint32)
    return _tagged(TAG_DATE, days ^ np.uint32(1 << 31))


def _datetime_pieces(array: pa.Array, _scalar: Scalar, _place: str) -> list[_Piece]:
    microseconds = array.cast(pa.int64()).to_numpy().view(np.uint64)
    return _tagged(TAG_DATETIME, microseconds ^ np.uint64(SIGN_BIT))


def _text_pieces(array: pa.Array, scalar: Scalar, _place: str) -> list[_Piece]:
    payload = array.cast(BINARY)
    data, offsets = binary_parts(payload)
    used = data[offsets[0] : offsets[-1]]
    if np.count_nonzero(used) < len(used):
        payload = pc.replace_substring(payload, pattern=b"\x00", replacement=b"\x00\xff")
    return [_constant(b"\x03" if scalar.kind == "str" else b"\x02"), payload, _constant(b"\x00")]


def _decimal_pieces(array: pa.Array, scalar: Scalar, _place: str) -> list[_Piece]:
    return [binary_from_list([encode_element(value, scalar) for value in array.to_pylist()])]


def _tuple_pieces(array: pa.Array, scalar: Scalar, place: str) -> list[_Piece]:
    pieces: list[_Piece] = [_constant(b"\x05")]
    for number, (member, item) in enumerate(zip(array.flatten(), scalar.items, strict=True)):
        pieces += _element_pieces(member, item, f"{place}, member {number}")
    return [*pieces, _constant(b"\x00")]


_ENCODERS: dict[str, Callable[[pa.Array, Scalar, str], list[_Piece]]] = {
    "bool": _bool_pieces,
    "int": _int_pieces,
    "float": _float_pieces,
    "str": _text_pieces,
    "bytes": _text_pieces,
    "date": _date_pieces,
    "datetime": _datetime_pieces,
    "decimal": _decimal_pieces,
    "tuple": _tuple_pieces,
}
