r"""Keys as bytes that sort as the values do: typed tuples, one element after the other.

Comparing two encoded keys byte by byte gives the order of the tuples that they stand for, so
a sorted key-value store holds nested maps and sets in order, and a range of keys is a range
of bytes. Every element says its own type (the tag), so a key decodes without its schema.
Equal values have exactly one encoding: ``1.0`` and ``1.00`` as Decimals, ``0.0`` and ``-0.0``
as floats, one instant in two time zones. These bytes are also what a vnode is computed from;
they are part of the stored format and must never change.

========  ========================================================================
tag       payload
========  ========================================================================
``01``    none: the value ``None``, before every other
``02``    bytes: ``00`` written ``00 FF``, then the terminator ``00``
``03``    str: UTF-8, escaped and terminated as bytes are
``05``    tuple: its elements, then ``00``
``14``    int below -2**63: complemented length (4 bytes), complemented magnitude
``15``    int of 64 bits: 8 bytes big-endian with the sign bit flipped
``16``    int above 2**63-1: length (4 bytes), magnitude
``21``    float: 8 bytes IEEE, order-preserving; one zero; one NaN, after infinity
``26 27`` False, True
``28``    Decimal: sign, exponent (4 bytes), digits in pairs, terminator; normalised
``30``    date: days since 1970-01-01 (4 bytes, sign bit flipped)
``31``    datetime: microseconds since 1970-01-01T00:00Z (8 bytes, sign bit flipped)
========  ========================================================================

No tag is ``00`` or ``FF``: after a complete element comes a tag, the end of a tuple or the end
of the key, whereas an escaped ``00`` goes on with ``FF``. :func:`prefix_range` rests on that.

The vectorised side is :mod:`atoll.codec.keys.columns`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from atoll.codec.scalars import (
    INT64_MAX,
    INT64_MIN,
    date_of,
    datetime_of,
    days_of,
    fit,
    microseconds_of,
    misfit,
    plain_decimal,
)
from atoll.errors import StateError
from atoll.schema import Scalar

DATA_END = b"\xfe"
"""The keys of data are lower: no element's tag is so high."""

EMPTY_KEY = b"\x00"
"""The key of no elements; one byte, because a store takes no key without bytes."""

TAG_NONE = 0x01
TAG_BYTES = 0x02
TAG_STR = 0x03
TAG_TUPLE = 0x05
TAG_INT_BELOW = 0x14
TAG_INT = 0x15
TAG_INT_ABOVE = 0x16
TAG_FLOAT = 0x21
TAG_FALSE = 0x26
TAG_TRUE = 0x27
TAG_DECIMAL = 0x28
TAG_DATE = 0x30
TAG_DATETIME = 0x31

SIGN_BIT = 1 << 63
NAN_BITS = 0x7FF8_0000_0000_0000
_SIGN_BIT_32 = 1 << 31
_ALL_BITS = (1 << 64) - 1
_EXPONENT_LIMIT = 1 << 31

_TAGGED_64 = struct.Struct(">BQ")
_TAGGED_32 = struct.Struct(">BI")
_FLOAT = struct.Struct(">d")
_UINT_64 = struct.Struct(">Q")
_UINT_32 = struct.Struct(">I")

_COMPLEMENT = bytes(255 - byte for byte in range(256))


def encode_key(values: Sequence[object], kinds: Sequence[Scalar]) -> bytes:
    """The key of these values: their elements one after the other.

    No values give :data:`EMPTY_KEY`. The key of the first n values is a prefix of the key of
    all of them; give ``kinds[:n]`` with it.

    Raises:
        StateError: When a value does not fit its kind, or there are not as many of each.
    """
    if len(values) != len(kinds):
        raise StateError(
            f"a key of {len(kinds)} elements got {len(values)} values",
            hint="give one value for each element of the key",
        )
    if not values:
        return EMPTY_KEY
    return b"".join(map(encode_element, values, kinds))


def encode_element(value: object, scalar: Scalar) -> bytes:
    """The bytes of one key element.

    Raises:
        StateError: When the value does not fit the scalar.
    """
    if value is None:
        fit(value, scalar)
        return b"\x01"
    return _ENCODERS[scalar.kind](value, scalar)


def _encode_int(value: Any, scalar: Scalar) -> bytes:
    if type(value) is not int:
        value = fit(value, scalar)
    if INT64_MIN <= value <= INT64_MAX:
        return _TAGGED_64.pack(TAG_INT, value + SIGN_BIT)
    magnitude: bytes = abs(value).to_bytes((value.bit_length() + 7) // 8, "big")
    encoded = _UINT_32.pack(len(magnitude)) + magnitude
    if value > 0:
        return b"\x16" + encoded
    return b"\x14" + encoded.translate(_COMPLEMENT)


def _encode_float(value: Any, scalar: Scalar) -> bytes:
    return _TAGGED_64.pack(TAG_FLOAT, _ordered_float_bits(fit(value, scalar)))


def _ordered_float_bits(value: float) -> int:
    if math.isnan(value):
        return NAN_BITS | SIGN_BIT
    bits: int = _UINT_64.unpack(_FLOAT.pack(value + 0.0))[0]  # adding 0.0 makes -0.0 the one zero
    return bits ^ _ALL_BITS if bits & SIGN_BIT else bits | SIGN_BIT


def _encode_bool(value: Any, scalar: Scalar) -> bytes:
    return b"\x27" if fit(value, scalar) else b"\x26"


def _encode_str(value: Any, scalar: Scalar) -> bytes:
    try:
        payload: bytes = value.encode() if type(value) is str else fit(value, scalar).encode()
    except UnicodeEncodeError:
        fit(value, scalar)
        raise
    return b"\x03" + payload.replace(b"\x00", b"\x00\xff") + b"\x00"


def _encode_bytes(value: Any, scalar: Scalar) -> bytes:
    payload: bytes = fit(value, scalar)
    return b"\x02" + payload.replace(b"\x00", b"\x00\xff") + b"\x00"


def _encode_date(value: Any, scalar: Scalar) -> bytes:
    return _TAGGED_32.pack(TAG_DATE, days_of(fit(value, scalar)) + _SIGN_BIT_32)


def _encode_datetime(value: Any, scalar: Scalar) -> bytes:
    return _TAGGED_64.pack(TAG_DATETIME, microseconds_of(fit(value, scalar)) + SIGN_BIT)


def _encode_decimal(value: Any, scalar: Scalar) -> bytes:
    decimal: Decimal = fit(value, scalar)
    sign, digits, _ = decimal.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return b"\x28\x01"
    exponent = decimal.adjusted() + _EXPONENT_LIMIT
    if not 0 <= exponent < 2 * _EXPONENT_LIMIT:
        raise misfit(value, scalar, hint="the exponent must fit 32 bits")
    text = text.lstrip("0")
    text += "0" * (len(text) % 2)
    pairs = bytes(int(text[i : i + 2]) + 1 for i in range(0, len(text), 2))
    payload = _UINT_32.pack(exponent) + pairs + b"\x00"
    return b"\x28\x00" + payload.translate(_COMPLEMENT) if sign else b"\x28\x02" + payload


def _encode_tuple(value: Any, scalar: Scalar) -> bytes:
    members: tuple[Any, ...] = fit(value, scalar)
    return b"\x05" + b"".join(map(encode_element, members, scalar.items)) + b"\x00"


_ENCODERS: dict[str, Callable[[Any, Scalar], bytes]] = {
    "bool": _encode_bool,
    "int": _encode_int,
    "float": _encode_float,
    "str": _encode_str,
    "bytes": _encode_bytes,
    "date": _encode_date,
    "datetime": _encode_datetime,
    "decimal": _encode_decimal,
    "tuple": _encode_tuple,
}


def decode_key(data: bytes | memoryview) -> tuple[Any, ...]:
    """The values of a key that :func:`encode_key` wrote.

    Instants come back in UTC, decimals without trailing zeros.

    Raises:
        StateError: When the bytes are no key.
    """
    key = data if isinstance(data, bytes) else bytes(data)
    if key == EMPTY_KEY:
        return ()
    values = []
    position = 0
    while position < len(key):
        value, position = decode_element(key, position)
        values.append(value)
    return tuple(values)


def decode_element(key: bytes, position: int) -> tuple[Any, int]:
    """The value of the element that begins at the position, and the position after it.

    Raises:
        StateError: When no element begins there, or the key ends inside it.
    """
    try:
        return _DECODERS[key[position]](key, position + 1)
    except (KeyError, IndexError, ValueError, OverflowError, struct.error):
        raise StateError(
            "these bytes are no key",
            hint="they were damaged, or written by something else",
            key=key[:64].hex(),
            position=position,
        ) from None


def _decode_none(_key: bytes, position: int) -> tuple[None, int]:
    return None, position


def _decode_bytes(key: bytes, position: int) -> tuple[bytes, int]:
    end = key.index(0, position)
    if key[end + 1 : end + 2] != b"\xff":
        return key[position:end], end + 1
    while key[end + 1 : end + 2] == b"\xff":
        end = key.index(0, end + 2)
    return key[position:end].replace(b"\x00\xff", b"\x00"), end + 1


def _decode_str(key: bytes, position: int) -> tuple[str, int]:
    payload, end = _decode_bytes(key, position)
    return payload.decode(), end


def _decode_tuple(key: bytes, position: int) -> tuple[tuple[Any, ...], int]:
    members = []
    while key[position] != 0:
        member, position = decode_element(key, position)
        members.append(member)
    return tuple(members), position + 1


def _decode_int(key: bytes, position: int) -> tuple[int, int]:
    return _UINT_64.unpack_from(key, position)[0] - SIGN_BIT, position + 8


def _decode_int_above(key: bytes, position: int) -> tuple[int, int]:
    start = position + 4
    end = start + _UINT_32.unpack_from(key, position)[0]
    if end > len(key):
        raise ValueError(end)
    return int.from_bytes(key[start:end], "big"), end


def _decode_int_below(key: bytes, position: int) -> tuple[int, int]:
    start = position + 4
    end = start + (_UINT_32.unpack_from(key, position)[0] ^ 0xFFFF_FFFF)
    if end > len(key):
        raise ValueError(end)
    return -int.from_bytes(key[start:end].translate(_COMPLEMENT), "big"), end


def _decode_float(key: bytes, position: int) -> tuple[float, int]:
    bits = _UINT_64.unpack_from(key, position)[0]
    bits ^= SIGN_BIT if bits & SIGN_BIT else _ALL_BITS
    return _FLOAT.unpack(_UINT_64.pack(bits))[0], position + 8


def _decode_false(_key: bytes, position: int) -> tuple[bool, int]:
    return False, position


def _decode_true(_key: bytes, position: int) -> tuple[bool, int]:
    return True, position


def _decode_decimal(key: bytes, position: int) -> tuple[Decimal, int]:
    sign = key[position]
    if sign == 1:
        return Decimal(0), position + 1
    if sign not in (0, 2):
        raise ValueError(sign)
    negative = int(sign == 0)
    start = position + 5
    end = key.index(0xFF if negative else 0, start)
    payload = key[position + 1 : end]
    if negative:
        payload = payload.translate(_COMPLEMENT)
    text = "".join(f"{pair - 1:02d}" for pair in payload[4:])
    adjusted = _UINT_32.unpack_from(payload)[0] - _EXPONENT_LIMIT
    leading = len(text) - len(text.lstrip("0"))
    return plain_decimal(negative, text[leading:], adjusted - len(text) + leading + 1), end + 1


def _decode_date(key: bytes, position: int) -> tuple[Any, int]:
    return date_of(_UINT_32.unpack_from(key, position)[0] - _SIGN_BIT_32), position + 4


def _decode_datetime(key: bytes, position: int) -> tuple[Any, int]:
    return datetime_of(_UINT_64.unpack_from(key, position)[0] - SIGN_BIT), position + 8


_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    TAG_NONE: _decode_none,
    TAG_BYTES: _decode_bytes,
    TAG_STR: _decode_str,
    TAG_TUPLE: _decode_tuple,
    TAG_INT_BELOW: _decode_int_below,
    TAG_INT: _decode_int,
    TAG_INT_ABOVE: _decode_int_above,
    TAG_FLOAT: _decode_float,
    TAG_FALSE: _decode_false,
    TAG_TRUE: _decode_true,
    TAG_DECIMAL: _decode_decimal,
    TAG_DATE: _decode_date,
    TAG_DATETIME: _decode_datetime,
}


def successor(prefix: bytes) -> bytes:
    """The lowest bound above the key ``prefix`` and above every longer key that begins with it.

    It is itself no key, and it is below every other key that is above ``prefix``.
    """
    return prefix + b"\xff"


def prefix_range(prefix: bytes) -> tuple[bytes, bytes]:
    """The bounds (low included, high excluded) of all keys that begin with these elements.

    The prefix is a key of whole elements; ``b""`` ranges over all keys. The key that equals
    the prefix is in the range.
    """
    return prefix, successor(prefix)
