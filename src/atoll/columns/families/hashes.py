"""Hashes: digests of texts, and the two hashes that Spark places rows by.

Murmur3 and XXH64 with the seed 42, each argument's hash being the seed of the next one; a null
leaves the seed as it is. Murmur3 takes the bytes behind the last whole word of a text one by one,
as Spark's own variant does.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from atoll.columns.families.strings import text_of
from atoll.columns.forms import Reading, arguments, certified, fixed
from atoll.columns.tree import Call, Node, Rows, any_fails
from atoll.columns.types import DATE, DOUBLE, FLOAT, INTEGERS, TIMES, NotCertifiedError, words

_FAMILY = "Hashes"
_SEED = 42
_LONG = 0xFFFF_FFFF_FFFF_FFFF
_INT = 0xFFFF_FFFF
_DIGESTS = {224: "sha224", 256: "sha256", 0: "sha256", 384: "sha384", 512: "sha512"}


@certified(_FAMILY, "`md5(s)`, `sha1(s)`, `sha(s)`", "string", "MD5", "SHA")
def _digest(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    return Call(pa.string(), text.fails, _hex, (text,), ("md5" if e.key == "md5" else "sha1",))


@certified(_FAMILY, "`sha2(s, 256)`", "string; a literal: 0, 224, 256, 384, 512", "SHA2")
def _sha2(reading: Reading, e: Any) -> Node:
    text = text_of(reading, e.this)
    bits = fixed(reading, e.args.get("length"), "sha2 of a number of bits", int)
    if bits not in _DIGESTS:
        raise NotCertifiedError(f"sha2 of {bits} bits")
    return Call(pa.string(), text.fails, _hex, (text,), (_DIGESTS[bits],))


def _hex(texts: pa.Array, name: str) -> pa.Array:
    given = texts.cast(pa.binary()).to_pylist()
    made = [
        None if each is None else hashlib.new(name, each, usedforsecurity=False).hexdigest()
        for each in given
    ]
    return pa.array(made, pa.string())


@certified(_FAMILY, "`crc32(s)`: a long", "string", "crc32")
def _crc32(reading: Reading, e: Any) -> Node:
    (argument,) = arguments(e)
    text = text_of(reading, argument)
    return Call(pa.int64(), text.fails, _sums, (text,))


def _sums(texts: pa.Array) -> pa.Array:
    given = texts.cast(pa.binary()).to_pylist()
    return pa.array([None if each is None else zlib.crc32(each) for each in given], pa.int64())


@certified(
    _FAMILY,
    "`hash(a, b, ...)`, `xxhash64(a, b, ...)`",
    "boolean, byte, short, int, long, float, double, string, date, timestamp, timestamp_ntz",
    "hash",
    "xxhash64",
)
def _hash(reading: Reading, e: Any) -> Node:
    args = tuple(reading.node(each) for each in e.expressions)
    for each in args:
        if each.type not in _WIDTHS and each.type != pa.string():
            raise NotCertifiedError(f"a hash of {words(each.type)}")
    if not args:
        raise NotCertifiedError("a hash of nothing")
    short = e.name.lower() == "hash"
    return Hashed(pa.int32() if short else pa.int64(), any_fails(args), args)


_WIDTHS: dict[pa.DataType, str] = {
    pa.bool_(): "<i4",
    **dict.fromkeys((*INTEGERS[:3], DATE), "<i4"),
    FLOAT: "<f4",
    DOUBLE: "<f8",
    **dict.fromkeys((INTEGERS[3], *TIMES), "<i8"),
}
"""As what the values of a type are hashed."""


@dataclass(frozen=True, eq=False)
class Hashed(Node):
    """The hash of several values."""

    args: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return self.args

    def compute(self, rows: Rows) -> pa.Array:
        """From left to right."""
        hashes = np.full(rows.batch.num_rows, _SEED, np.uint64)
        short = self.type == pa.int32()
        for each in self.args:
            values = each.of(rows)
            if each.type == pa.string():
                made = _of_texts(values, hashes, _murmur_text if short else _xx_text)
            else:
                words_ = _bits(values)
                made = _MURMUR[words_.itemsize](words_, hashes) if short else _XX(words_, hashes)
            hashes = np.where(np.asarray(values.is_null()), hashes, made)
        if short:
            return pa.array(hashes.astype(np.uint32).view(np.int32))
        return pa.array(hashes.view(np.int64))


def _bits(values: pa.Array) -> Any:
    """The values as unsigned words of four or eight bytes; -0.0 as 0.0, NaN as the usual one."""
    width = _WIDTHS[values.type]
    if values.type in (FLOAT, DOUBLE):
        plain = values.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        numbers = np.where(np.isnan(plain), np.array(np.nan, width), plain).astype(width)
    elif values.type == pa.bool_():
        numbers = values.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False).astype(width)
    else:
        whole = values.cast(pa.int32() if width == "<i4" else pa.int64())
        numbers = whole.fill_null(0).to_numpy(zero_copy_only=False).astype(width)
    return numbers.view(width.replace("i", "u").replace("f", "u"))


def _of_texts(texts: pa.Array, seeds: Any, function: Callable[[bytes, int], int]) -> Any:
    given = texts.cast(pa.binary()).to_pylist()
    pairs = zip(given, seeds.tolist(), strict=True)
    return np.array([0 if a is None else function(a, seed) for a, seed in pairs], np.uint64)


# Murmur3, 32 bits -----------------------------------------------------------------------------


def _rotated(value: Any, by: int, bits: int) -> Any:
    mask = (1 << bits) - 1
    return ((value << by) | (value >> (bits - by))) & mask


def _mixed(hash_: Any, word: Any) -> Any:
    """One word of four bytes, of a number or of a column of them."""
    word = _rotated(word * 0xCC9E2D51 & _INT, 15, 32) * 0x1B873593 & _INT
    return (_rotated(hash_ ^ word, 13, 32) * 5 + 0xE6546B64) & _INT


def _finished(hash_: Any, length: int) -> Any:
    hash_ = hash_ ^ length
    hash_ = (hash_ ^ (hash_ >> 16)) * 0x85EBCA6B & _INT
    hash_ = (hash_ ^ (hash_ >> 13)) * 0xC2B2AE35 & _INT
    return hash_ ^ (hash_ >> 16)


def _column(values: Any) -> Any:
    return values.astype(np.uint64)


_MURMUR = {
    4: lambda words_, seeds: _finished(_mixed(seeds & np.uint64(_INT), _column(words_)), 4),
    8: lambda words_, seeds: _finished(
        _mixed(_mixed(seeds & np.uint64(_INT), words_ & np.uint64(_INT)), words_ >> np.uint64(32)),
        8,
    ),
}


def _murmur_text(data: bytes, seed: int) -> int:
    whole = len(data) // 4 * 4
    found = seed & _INT
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        found = _mixed(found, word)
    for (byte,) in struct.iter_unpack("<b", data[whole:]):
        found = _mixed(found, byte & _INT)
    return int(_finished(found, len(data)))


# XXH64 ----------------------------------------------------------------------------------------

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _avalanche(value: Any) -> Any:
    value = (value ^ (value >> 33)) * _P2 & _LONG
    value = (value ^ (value >> 29)) * _P3 & _LONG
    return value ^ (value >> 32)


def _round(value: int, word: int) -> int:
    found: int = _rotated((value + word * _P2) & _LONG, 31, 64) * _P1 & _LONG
    return found


def _xx_number(word: int, width: int, seed: int) -> int:
    found = (seed + _P5 + width) & _LONG
    if width == 8:  # noqa: PLR2004 - bytes
        found = (_rotated(found ^ _round(0, word), 27, 64) * _P1 + _P4) & _LONG
    else:
        found = (_rotated(found ^ (word * _P1 & _LONG), 23, 64) * _P2 + _P3) & _LONG
    return int(_avalanche(found))


def _XX(words_: Any, seeds: Any) -> Any:  # noqa: N802 - beside _MURMUR
    pairs = zip(words_.tolist(), seeds.tolist(), strict=True)
    return np.array([_xx_number(a, words_.itemsize, seed) for a, seed in pairs], np.uint64)


def _xx_text(data: bytes, seed: int) -> int:
    at, length = 0, len(data)
    found = (seed + _P5) & _LONG
    if length >= 32:  # noqa: PLR2004 - bytes
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        lanes = [each & _LONG for each in lanes]
        for words_ in struct.iter_unpack("<4Q", data[: length // 32 * 32]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words_, strict=True)]
        at = length // 32 * 32
        rotated = [_rotated(lane, by, 64) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)]
        found = sum(rotated) & _LONG
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _LONG
    found = (found + length) & _LONG
    while at + 8 <= length:
        (word,) = struct.unpack_from("<Q", data, at)
        found = (_rotated(found ^ _round(0, word), 27, 64) * _P1 + _P4) & _LONG
        at += 8
    if at + 4 <= length:
        (word,) = struct.unpack_from("<I", data, at)
        found = (_rotated(found ^ (word * _P1 & _LONG), 23, 64) * _P2 + _P3) & _LONG
        at += 4
    for byte in data[at:]:
        found = _rotated(found ^ (byte * _P5 & _LONG), 11, 64) * _P1 & _LONG
    return int(_avalanche(found))
