"""Vnodes: the smallest unit of data placement.

A vnode is the CRC-32 of a key's first element (as :func:`atoll.codec.keys.encode_element`
writes it, alone) modulo the vnode count. A key's vnode never changes, whoever owns the vnode:
placement moves vnodes, never keys. PStates without a key (globals, plain values) have a vnode
count of 1, and everything in vnode 0.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.codec.key_columns import KeyColumn

__all__ = ["VNODE_COUNT_DEFAULT", "VNODE_COUNT_MAX", "check_vnode_count", "vnode_of", "vnodes_of"]

VNODE_COUNT_DEFAULT = 256
VNODE_COUNT_MAX = 32_768
"""So that a vnode fits 15 bits, and a 16 bit column of them may be signed or not."""


def check_vnode_count(vnode_count: int) -> int:
    """The count, when it may be one.

    Raises:
        DeclarationError: When it is no int from 1 to 32,768.
    """
    if type(vnode_count) is int and 1 <= vnode_count <= VNODE_COUNT_MAX:
        return vnode_count
    raise DeclarationError(
        f"a vnode count is an int from 1 to {VNODE_COUNT_MAX}, not {vnode_count!r}",
        hint=f"{VNODE_COUNT_DEFAULT} suits all but very large clusters",
    )


def vnode_of(key_element: bytes, vnode_count: int) -> int:
    """The vnode of a key whose first element has these bytes."""
    return zlib.crc32(key_element) % vnode_count


def vnodes_of(keys: KeyColumn, vnode_count: int) -> NDArray[np.uint16]:
    """The vnode of each key of a column that holds first elements only."""
    remainders: NDArray[np.uint32] = keys.crc32() % np.uint32(vnode_count)
    return remainders.astype(np.uint16)
