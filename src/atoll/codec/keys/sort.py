"""Arithmetic on keys of one width: CRC-32 and order of all rows of a matrix of bytes.

CRC-32 is linear: the CRC of a row is the exclusive or of one table entry per pair of bytes and
a constant, so a column takes half as many look-ups as a key has bytes. Order comes from the
bytes that differ between rows at all, packed into as few 64 bit words as hold them.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from atoll.codec.binary import Bytes, Positions

_BLOCK_ROWS = 32_768  # so that a block and its tables stay in the processor's cache
_WORD_BYTES = 8
_COMPARE_ROWS = 64

Words = NDArray[np.uint64]


def crc32_rows(matrix: Bytes) -> NDArray[np.uint32]:
    """The CRC-32 of each row, as ``zlib.crc32`` computes it."""
    rows, width = matrix.shape
    result = np.full(rows, zlib.crc32(bytes(width)), np.uint32)
    if rows == 0:
        return result
    for start in range(0, rows, _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS]
        crcs = result[start : start + _BLOCK_ROWS]
        if width % 2:  # the odd byte is the first: mostly a tag, the same in every row
            crcs ^= _byte_table(width - 1).take(block[:, 0])
        pairs = np.ascontiguousarray(block[:, width % 2 :])
        columns = np.ascontiguousarray(pairs.view("<u2").T)
        for number, column in enumerate(columns):
            crcs ^= _pair_table(width - width % 2 - 2 * (number + 1)).take(column)
    return result


@lru_cache(maxsize=256)
def _byte_table(following: int) -> NDArray[np.uint32]:
    """What a byte adds to the CRC of a row in which that many bytes follow it."""
    tail = bytes(following)
    zero = zlib.crc32(b"\x00" + tail)
    table = [zlib.crc32(bytes((byte,)) + tail) ^ zero for byte in range(256)]
    return np.array(table, np.uint32)


@lru_cache(maxsize=128)
def _pair_table(following: int) -> NDArray[np.uint32]:
    """What two bytes, read as one little-endian number, add to the CRC."""
    first, second = _byte_table(following + 1), _byte_table(following)
    return (second[:, None] ^ first[None, :]).reshape(-1)


def words_of(matrix: Bytes) -> list[Words]:
    """The rows as 64 bit words that sort and compare as the rows do, first word first.

    Bytes that are the same in every row are left out; rows that are all equal have no words.
    """
    varying = np.flatnonzero(_varying_bytes(matrix))
    words = []
    for start in range(0, len(varying), _WORD_BYTES):
        places = varying[start : start + _WORD_BYTES]
        part = np.zeros((len(matrix), _WORD_BYTES), np.uint8)
        if places[-1] - places[0] + 1 == len(places):
            part[:, _WORD_BYTES - len(places) :] = matrix[:, places[0] : places[-1] + 1]
        else:
            part[:, _WORD_BYTES - len(places) :] = matrix[:, places]
        words.append(part.view(">u8").reshape(-1).astype(np.uint64))
    return words


def _varying_bytes(matrix: Bytes) -> NDArray[np.bool_]:
    rows, width = matrix.shape
    if rows == 0:
        return np.zeros(width, np.bool_)
    whole = rows - rows % _COMPARE_ROWS  # many rows side by side make long, fast comparisons
    blocks = np.ascontiguousarray(matrix[:whole]).reshape(-1, _COMPARE_ROWS * width)
    differing = (blocks != np.tile(matrix[0], _COMPARE_ROWS)).any(axis=0)
    varying: NDArray[np.bool_] = differing.reshape(_COMPARE_ROWS, width).any(axis=0)
    varying |= (matrix[whole:] != matrix[0]).any(axis=0)
    return varying


def order_of_words(words: list[Words], rows: int) -> Positions:
    """The positions of the rows in the order of their words; equal rows keep their order."""
    if not words:
        return np.arange(rows, dtype=np.int64)
    if len(words) == 1:
        return _order_of_word(words[0])
    return np.lexsort(words[::-1]).astype(np.int64)


def _order_of_word(word: Words) -> Positions:
    """Sort the word's leading bits together with the position, then repair what they left.

    Sorting plain numbers is several times faster than sorting positions by them, and the
    position within the number makes the sort stable.
    """
    rows = len(word)
    position_bits = max(rows - 1, 1).bit_length()
    low = word.min()
    range_bits = int(word.max() - low).bit_length()
    dropped = max(range_bits + position_bits - 64, 0)
    packed: Words = (word - low) >> np.uint64(dropped) << np.uint64(position_bits)
    packed |= np.arange(rows, dtype=np.uint64)
    packed.sort()
    packed_order = packed & np.uint64((1 << position_bits) - 1)
    order: Positions = packed_order.astype(np.int64)
    if dropped:
        ordered = word[order]
        if (ordered[1:] < ordered[:-1]).any():
            order = order[np.argsort(ordered, kind="stable")]
    return order
