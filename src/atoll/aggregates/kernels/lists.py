"""Lists as packed bytes, joined without unpacking their items.

A packed list is a msgpack array: a header with the number of items, then the items. So the
join of lists is one new header and the old bodies, whatever the items are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.types import conform
from atoll.arrow_types import OPAQUE
from atoll.errors import StateError
from atoll.schema import List

if TYPE_CHECKING:
    from atoll.aggregates.base import Packing
    from atoll.schema import Node


EMPTY = b"\x90"
"""The packed empty list."""

ONE_GROUP = np.zeros(1, np.int64)
"""Where groups start when all rows are one, which may have none."""

_SHORT, _SHORT_MAX = 0x90, 0x0F
_MIDDLE, _MIDDLE_MAX = 0xDC, 0xFFFF
_LONG = 0xDD


def pack_groups(
    column: pa.Array, starts: NDArray[np.int64] | None, node: Node, packing: Packing | None
) -> pa.Array:
    """Each group's values that are not null as one packed list; each row a group if None."""
    assert packing is not None, "aggregates of collections are bound before they run"
    assert isinstance(node, List), "checked when it was bound"
    values = [conform(value, node.item) for value in column.to_pylist()]
    pack = packing.pack
    if starts is None:
        return pa.array([EMPTY if v is None else pack(node, [v]) for v in values], OPAQUE)
    bounds = [*starts.tolist(), len(values)]
    if column.null_count:
        groups = (
            [v for v in values[start:end] if v is not None] for start, end in pairwise(bounds)
        )
    else:
        groups = (values[start:end] for start, end in pairwise(bounds))
    return pa.array([pack(node, group) for group in groups], OPAQUE)


def pack_rows(
    values: Sequence[object], starts: NDArray[np.int64] | None, node: Node, packing: Packing
) -> pa.Array:
    """Each group's values, nulls and all, as one packed list; each row a group if None."""
    bounds = range(len(values) + 1) if starts is None else [*starts.tolist(), len(values)]
    pack = packing.pack
    return pa.array([pack(node, values[start:end]) for start, end in pairwise(bounds)], OPAQUE)


def heads_of_groups(
    column: pa.Array, starts: NDArray[np.int64], count: int, node: Node, packing: Packing
) -> pa.Array:
    """The first items of each group's packed lists, taken as one."""
    parts = column.to_pylist()
    bounds = [*starts.tolist(), len(parts)]
    heads = [_head(parts[start:end], count, node, packing) for start, end in pairwise(bounds)]
    return pa.array(heads, OPAQUE)


def heads_of_pairs(
    old: pa.Array, new: pa.Array, count: int, node: Node, packing: Packing
) -> pa.Array:
    """Row by row the first items of both packed lists, taken as one."""
    pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
    return pa.array([_head(pair, count, node, packing) for pair in pairs], OPAQUE)


def _head(parts: Iterable[bytes | None], count: int, node: Node, packing: Packing) -> bytes:
    """The first items; lists after them are not looked at, only one that is cut is unpacked."""
    kept: list[bytes] = []
    room = count
    for part in parts:
        if part is None or part == EMPTY:
            continue
        size = _header(part)[0]
        kept.append(part if size <= room else packing.pack(node, packing.unpack(node, part)[:room]))
        room -= size
        if room <= 0:
            break
    return join(kept)


def join_groups(column: pa.Array, starts: NDArray[np.int64]) -> pa.Array:
    """Each group's packed lists as one."""
    parts = column.to_pylist()
    bounds = [*starts.tolist(), len(parts)]
    joined = [join(parts[start:end]) for start, end in pairwise(bounds)]
    return pa.array(joined, OPAQUE)


def join_pairs(old: pa.Array, new: pa.Array) -> pa.Array:
    """Row by row both packed lists as one."""
    pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
    return pa.array([join(pair) for pair in pairs], OPAQUE)


def join(parts: Iterable[bytes | None]) -> bytes:
    """Packed lists as one; an absent list is an empty one.

    Raises:
        StateError: When some bytes are no packed list.
    """
    held = [part for part in parts if part is not None and part != EMPTY]
    if len(held) < 2:  # noqa: PLR2004 - nothing to join
        return held[0] if held else EMPTY
    total = 0
    bodies = [b""]
    for part in held:
        count, width = _header(part)
        total += count
        bodies.append(part[width:])
    if total <= _SHORT_MAX:
        bodies[0] = bytes((_SHORT | total,))
    elif total <= _MIDDLE_MAX:
        bodies[0] = struct.pack(">BH", _MIDDLE, total)
    else:
        bodies[0] = struct.pack(">BI", _LONG, total)
    return b"".join(bodies)


def _header(packed: bytes) -> tuple[int, int]:
    """The number of items, and the length of the header."""
    first = packed[0] if packed else 0
    if first & ~_SHORT_MAX == _SHORT:
        return first & _SHORT_MAX, 1
    if first == _MIDDLE:
        return struct.unpack_from(">H", packed, 1)[0], 3
    if first == _LONG:
        return struct.unpack_from(">I", packed, 1)[0], 5
    raise StateError(
        "these bytes are no packed list",
        hint="they were damaged, or written under another schema",
        value=packed[:64].hex(),
    )
