"""Encoded keys back to columns, element by element over all rows at once.

The keys lie side by side in one buffer; every row has a cursor, and an element is read for all
rows by gathering from the cursors. Rows whose element is none sit out its reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.arrow_types import arrow_type
from atoll.codec.binary import (
    Bytes,
    Positions,
    binary_from_list,
    binary_parts,
    expand,
    take_slices,
    take_words,
)
from atoll.codec.keys.elements import (
    EMPTY_KEY,
    SIGN_BIT,
    TAG_BYTES,
    TAG_DATE,
    TAG_DATETIME,
    TAG_DECIMAL,
    TAG_FALSE,
    TAG_FLOAT,
    TAG_INT,
    TAG_NONE,
    TAG_STR,
    TAG_TRUE,
    TAG_TUPLE,
    decode_element,
)
from atoll.errors import StateError
from atoll.exact_values import exact_array
from atoll.schema import Scalar


def decode_columns(keys: Sequence[bytes], kinds: Sequence[Scalar]) -> list[pa.Array]:
    """The columns of these keys' elements, of the types of ``arrow_type``.

    Raises:
        StateError: When a key does not consist of such elements, or an element is larger than
            its column can hold (ints of 64 bits, decimals of 38 digits).
    """
    data, offsets = binary_parts(binary_from_list(keys))
    if not kinds:
        if any(key != EMPTY_KEY for key in keys):
            raise _no_such_keys("no elements")
        return []
    reader = _Reader(data, offsets[1:])
    cursors = offsets[:-1].copy()
    columns = []
    try:
        for scalar in kinds:
            column, cursors = reader.element(scalar, cursors, reader.ends)
            columns.append(column)
    except IndexError:
        raise _no_such_keys("keys that go on") from None
    except (pa.ArrowInvalid, OverflowError) as error:
        raise _no_such_keys("elements that fit their columns") from error
    if not np.array_equal(cursors, reader.ends):
        raise _no_such_keys(f"exactly {len(kinds)} elements")
    return columns


class _Reader:
    """The buffer of all keys, and where each ends."""

    def __init__(self, data: Bytes, ends: Positions) -> None:
        self.data = data
        self.ends = ends
        self._terminators: Positions | None = None

    def element(
        self, scalar: Scalar, cursors: Positions, ends: Positions
    ) -> tuple[pa.Array, Positions]:
        """The element at each cursor as a column, and the cursors after it."""
        if (cursors >= ends).any():
            raise _no_such_keys(str(scalar))
        present = self.data[cursors] != TAG_NONE
        if present.all():
            return self._present(scalar, cursors, ends)
        column, after = self._present(scalar, cursors[present], ends[present])
        cursors = cursors + 1
        cursors[present] = after
        if len(column) == 0:
            return pa.nulls(len(present), arrow_type(scalar)), cursors
        return expand(column, present), cursors

    def _present(
        self, scalar: Scalar, cursors: Positions, ends: Positions
    ) -> tuple[pa.Array, Positions]:
        tags = self.data[cursors]
        if scalar.kind == "bool":
            _check(((tags == TAG_FALSE) | (tags == TAG_TRUE)).all(), scalar)
            return pa.array(tags == TAG_TRUE), cursors + 1
        _check((tags == _TAGS[scalar.kind]).all(), scalar)
        if scalar.kind == "tuple":
            return self._tuple(scalar, cursors + 1, ends)
        if scalar.kind == "decimal":
            return self._decimal(scalar, cursors)
        if scalar.kind in {"str", "bytes"}:
            return self._text(scalar, cursors + 1, ends)
        dtype, convert = _FIXED[scalar.kind]
        after = cursors + 1 + np.dtype(dtype).itemsize
        _check((after <= ends).all(), scalar)
        return convert(take_words(self.data, cursors + 1, dtype)), after

    def _tuple(
        self, scalar: Scalar, cursors: Positions, ends: Positions
    ) -> tuple[pa.Array, Positions]:
        members = []
        for item in scalar.items:
            member, cursors = self.element(item, cursors, ends)
            members.append(member)
        _check((cursors < ends).all() and not self.data[cursors].any(), scalar)
        return pa.StructArray.from_arrays(members, fields=list(arrow_type(scalar))), cursors + 1

    def _decimal(self, scalar: Scalar, cursors: Positions) -> tuple[pa.Array, Positions]:
        buffer = self.data.tobytes()
        pairs = [decode_element(buffer, cursor) for cursor in cursors.tolist()]
        values = exact_array([value for value, _ in pairs], arrow_type(scalar))
        return values, np.array([after for _, after in pairs], np.int64)

    def _text(
        self, scalar: Scalar, cursors: Positions, ends: Positions
    ) -> tuple[pa.Array, Positions]:
        terminators = self._all_terminators()
        numbers = np.searchsorted(terminators, cursors)
        _check((numbers < len(terminators)).all(), scalar)
        stops = terminators[numbers]
        _check((stops < ends).all(), scalar)
        texts = take_slices(self.data, cursors, stops - cursors)
        taken = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
        if np.count_nonzero(taken) < len(taken):
            texts = pc.replace_substring(texts, pattern=b"\x00\xff", replacement=b"\x00")
        return texts.cast(arrow_type(scalar)), stops + 1

    def _all_terminators(self) -> Positions:
        """Every zero byte that no escape follows.

        Those inside numbers do no harm: a text's own terminator is the first after its start.
        """
        if self._terminators is None:
            zeros = np.flatnonzero(self.data == 0)
            following = np.append(self.data, np.uint8(0))[zeros + 1]
            self._terminators = zeros[following != 0xFF]  # noqa: PLR2004 - the escape
        return self._terminators


def _int_column(numbers: NDArray[Any]) -> pa.Array:
    return pa.array((numbers.astype(np.uint64) ^ np.uint64(SIGN_BIT)).view(np.int64))


def _float_column(numbers: NDArray[Any]) -> pa.Array:
    bits = numbers.astype(np.uint64)
    positive = bits >= np.uint64(SIGN_BIT)
    restored = np.where(positive, bits ^ np.uint64(SIGN_BIT), ~bits)
    return pa.array(restored.view(np.float64))


def _date_column(numbers: NDArray[Any]) -> pa.Array:
    days = (numbers.astype(np.uint32) ^ np.uint32(1 << 31)).view(np.int32)
    return pa.array(days).cast(pa.date32())


def _datetime_column(numbers: NDArray[Any]) -> pa.Array:
    return _int_column(numbers).cast(arrow_type(Scalar("datetime")))


_FIXED: dict[str, tuple[str, Callable[[NDArray[Any]], pa.Array]]] = {
    "int": (">u8", _int_column),
    "float": (">u8", _float_column),
    "date": (">u4", _date_column),
    "datetime": (">u8", _datetime_column),
}

_TAGS = {
    "int": TAG_INT,
    "float": TAG_FLOAT,
    "str": TAG_STR,
    "bytes": TAG_BYTES,
    "date": TAG_DATE,
    "datetime": TAG_DATETIME,
    "decimal": TAG_DECIMAL,
    "tuple": TAG_TUPLE,
}


def _check(holds: Any, scalar: Scalar) -> None:
    if not holds:
        raise _no_such_keys(str(scalar))


def _no_such_keys(expected: str) -> StateError:
    return StateError(
        f"keys do not hold {expected} where their schema says so",
        hint="they were damaged, or written under another schema; ints of more than 64 bits "
        "cannot be read as columns",
    )
