"""Vnodes: the smallest unit of data placement.

A vnode is the CRC-32 of a key's first element (as :func:`atoll.codec.keys.elements.encode_element`
writes it, alone) modulo the vnode count. A key's vnode never changes, whoever owns the vnode:
placement moves vnodes, never keys. PStates without a key (globals, plain values) have a vnode
count of 1, and everything in vnode 0. A PState may have a function of its own in place of the
CRC-32: from key to number.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from atoll.codec.keys.elements import decode_element
from atoll.errors import DeclarationError, UserCodeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.codec.keys.columns import KeyColumn


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


def vnode_by(partition_by: Callable[[Any], int], key_element: bytes, vnode_count: int) -> int:
    """The vnode of a key by a user's function from key to number: the number modulo the count.

    Raises:
        UserCodeError: When the function raises, or returns no whole number.
    """
    key, _ = decode_element(key_element, 0)
    try:
        return operator.index(partition_by(key)) % vnode_count
    except Exception as error:
        raise UserCodeError(
            f"partition_by raised {type(error).__name__}: {error}",
            hint="it is called with each key alone, and returns an int",
            key=repr(key)[:200],
        ) from error


def vnodes_by(
    partition_by: Callable[[Any], int], keys: KeyColumn, vnode_count: int
) -> NDArray[np.uint16]:
    """The vnode of each key of a column by a user's function, which is called once per key.

    Raises:
        UserCodeError: When the function raises, or returns no whole number.
    """
    found: dict[bytes, int] = {}
    vnodes = []
    for key in keys.to_bytes():
        vnode = found.get(key)
        if vnode is None:
            vnode = found[key] = vnode_by(partition_by, key, vnode_count)
        vnodes.append(vnode)
    return np.array(vnodes, dtype=np.uint16)
