"""Values on their way between processes, exactly as they are: msgpack with types of its own.

JSON has fewer types than Python, so what reads it has to know the schema. Here a value comes out
as it went in: whole numbers of any size, decimals, dates, instants, tuples, sets, and maps with
any keys. It is data only: nothing in it can name code.

=========  ===========================================================
extension  holds
=========  ===========================================================
1          a whole number beyond 64 bits, as text
2          a decimal, as text
3          a date, as ISO text
4          an instant, as ISO text with its offset where it has one
5, 6       a tuple, a set: an array
7          a map with keys that are no strings: an array of pairs
=========  ===========================================================

Where several follow each other in a stream, each stands behind its length (8 bytes, big end first).
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

import msgspec

from atoll.errors import StateError, kind_of_value

VALUES = "application/vnd.atoll.values"
"""The media type."""

_BIG, _DECIMAL, _DATE, _INSTANT, _TUPLE, _SET, _MAP = range(1, 8)
_LENGTH_BYTES = 8
_FRAME_BYTES_MAX = 1 << 40
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
_SAME = (str, float, bytes, bool, type(None))
_encode = msgspec.msgpack.Encoder().encode


def packed(value: Any) -> bytes:
    """The value as bytes.

    Raises:
        StateError: When it, or something in it, is of no type that a value can have.
    """
    return _encode(_ready(value))


def unpacked(data: bytes) -> Any:
    """The value that :func:`packed` was given.

    Raises:
        StateError: When the bytes are none of its.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError) as error:
        raise StateError(f"these bytes are no value: {error}", hint="send them whole") from None


def framed(value: Any) -> bytes:
    """The value behind its length, for a stream of several."""
    data = packed(value)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class Frames:
    """Takes a stream of framed values apart, however it was cut on the way."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The values that are whole by now.

        Raises:
            StateError: When the stream is none of framed values.
        """
        self._rest += data
        found = []
        while len(self._rest) >= _LENGTH_BYTES:
            length = int.from_bytes(self._rest[:_LENGTH_BYTES], "big")
            if length > _FRAME_BYTES_MAX:
                raise StateError("this is no stream of values", hint="check what answers there")
            end = _LENGTH_BYTES + length
            if len(self._rest) < end:
                break
            found.append(unpacked(bytes(self._rest[_LENGTH_BYTES:end])))
            del self._rest[:end]
        return found

    @property
    def cut(self) -> bool:
        """Whether the stream ended within a value, if it ended now."""
        return bool(self._rest)


def _ready(value: Any) -> Any:
    """The value made of what msgpack has, and extensions."""
    if isinstance(value, _SAME):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if _INT_MIN <= number <= _INT_MAX else _texted(_BIG, number)
    if isinstance(value, list):
        return [_ready(item) for item in value]
    if isinstance(value, tuple):
        return _nested(_TUPLE, value)
    if isinstance(value, set | frozenset):
        return _nested(_SET, value)
    if isinstance(value, Mapping):
        if all(type(key) is str for key in value):
            return {key: _ready(item) for key, item in value.items()}
        return msgspec.msgpack.Ext(
            _MAP, _encode([[_ready(key), _ready(item)] for key, item in value.items()])
        )
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case dt.datetime():
            return _texted(_INSTANT, value.isoformat())
        case dt.date():
            return _texted(_DATE, value.isoformat())
        case decimal.Decimal():
            return _texted(_DECIMAL, value)
        case bytearray() | memoryview():
            return bytes(value)
    if callable(getattr(value, "item", None)):  # a number of numpy
        return _ready(value.item())
    raise StateError(f"{kind_of_value(value)} is no value that can be sent")


def _texted(code: int, value: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, str(value).encode())


def _nested(code: int, items: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode([_ready(item) for item in items]))


def _extension(code: int, data: memoryview) -> Any:
    raw = bytes(data)
    match code:
        case 1:
            return int(raw)
        case 2:
            return decimal.Decimal(raw.decode())
        case 3:
            return dt.date.fromisoformat(raw.decode())
        case 4:
            return dt.datetime.fromisoformat(raw.decode())
        case 5:
            return tuple(_decoder.decode(raw))
        case 6:
            return set(_decoder.decode(raw))
        case 7:
            return {key: item for key, item in _decoder.decode(raw)}  # noqa: C416 - says the pairs
    raise ValueError(f"an unknown type of value: {code}")


_decoder = msgspec.msgpack.Decoder(ext_hook=_extension)
