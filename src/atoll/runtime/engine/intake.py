"""The intake of a runtime: what its records are, and to which copy each of them goes. Pure.

By key: the key's vnode, one of 256, says which copy owns it, each copy a run of neighbouring
vnodes. (Coral has a ring of 64-bit Murmur hashes, divided in the same way.) Round robin: a number
that each record got when it was taken in. Both are in the record, so every attempt at a
microbatch decides equally, and a change of the number of copies needs no change of records.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.codec.keys.elements import encode_element
from atoll.placement.vnodes import VNODE_COUNT_DEFAULT, vnode_of
from atoll.runtime.events import text_of
from atoll.schema import Scalar

INTAKE_DDL = (
    "kind string NOT NULL, actor string NOT NULL, copy int, vnode int, turn long NOT NULL, "
    "at long NOT NULL, id string NOT NULL, body string NOT NULL"
)
"""``copy`` is set for a copy asked for by number, ``vnode`` for an event with a key, else the
``turn`` decides, which no two records share. ``at`` is when it was taken in, epoch milliseconds.
``id`` names a shunt, or what an answer answers."""

EVENTS = ("trigger", "shunt", "answer")
FOR_ALL = ("start", "stop", "offer")
FOR_ONE = ("drop", "leave", "take")
"""Kinds of records that are for the copy of their key or turn, kinds that all copies take, and
kinds that one takes, also one that has gone: it drops all that it keeps, it lets the groups go
that are no longer its own, it takes some over."""

COPIES_MAX = VNODE_COUNT_DEFAULT

_TEXT = Scalar("str")
_BITS = VNODE_COUNT_DEFAULT.bit_length() - 1


def key_vnode(value: Any) -> int | None:
    """The vnode of a key; None when the value names nothing, and the event goes round robin."""
    text = text_of(value)
    if text is None:
        return None
    return vnode_of(encode_element(text, _TEXT), VNODE_COUNT_DEFAULT)


def copy_of_vnode(vnode: int, copies: int) -> int:
    """The copy, from 1, that owns a vnode of keys."""
    return vnode * copies // VNODE_COUNT_DEFAULT + 1


def vnode_of_copy(copy: int) -> int:
    """The vnode of the PStates that a copy's state lies in.

    Units own runs of neighbouring vnodes, so the copies' are far from each other: the bits of the
    copy's number, reversed.
    """
    return int(f"{(copy - 1) % VNODE_COUNT_DEFAULT:0{_BITS}b}"[::-1], 2)


def record(  # noqa: PLR0913  # the parts of a record
    kind: str,
    actor: str,
    body: Any,
    *,
    turn: int,
    at: int,
    copy: int | None = None,
    vnode: int | None = None,
    name: str = "",
) -> dict[str, Any]:
    """A record of the intake."""
    text = body if isinstance(body, str) else msgspec.json.encode(body).decode()
    return {
        "kind": kind,
        "actor": actor,
        "copy": copy,
        "vnode": vnode,
        "turn": turn,
        "at": at,
        "id": name,
        "body": text,
    }


def copy_of(made: dict[str, Any], copies: int) -> int:
    """The copy of one event; as :func:`copies_of` says of many."""
    if made["copy"]:
        return int((made["copy"] - 1) % copies + 1)
    if made["vnode"] is not None:
        return copy_of_vnode(made["vnode"], copies)
    return int(made["turn"] % copies + 1)


def copies_of(records: pa.RecordBatch | pa.Table, copies: int) -> NDArray[np.int64]:
    """The copy of each record, from 1; 0 for all copies.

    A copy asked for that there is no more gives its records to the copy of that number modulo the
    copies that there are.
    """
    turn = _ints(records.column("turn"))
    asked = _ints(pc.fill_null(records.column("copy"), 0))
    vnode = _ints(pc.fill_null(records.column("vnode"), -1))
    by_key = vnode * copies // VNODE_COUNT_DEFAULT + 1
    found: NDArray[np.int64] = np.where(vnode >= 0, by_key, turn % copies + 1)
    found = np.where(asked > 0, (asked - 1) % copies + 1, found)
    for_all = pc.is_in(records.column("kind"), pa.array(FOR_ALL))
    found[_numpy(for_all)] = 0
    for_one = _numpy(pc.is_in(records.column("kind"), pa.array(FOR_ONE)))
    found[for_one] = asked[for_one]
    return found


def _ints(column: Any) -> NDArray[np.int64]:
    return _numpy(column).astype(np.int64)


def _numpy(column: Any) -> NDArray[Any]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    made: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return made
