"""Joins rows of different microbatches on an actor: new rows in, rows side by side out.

With a unique side the state is small: one row per key of that side, and those rows of the other
side whose partner has not come. Without one both sides are kept whole. Either way a pair comes
out once, when the later of its rows comes; the other one is in the state then, or came with it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.steps.changing_join.pairing import pairs
from atoll.steps.incremental_join.rows import rows_of, side_key, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from atoll.steps.incremental_join.bound import BoundJoin
    from atoll.steps.incremental_join.rows import Rows, WriterOf

_Entry = tuple[bytes, bytes | None, bytes | None]
"""Key, new value and old value."""


def join(
    step: BoundJoin,
    left: Sequence[pa.Table],
    right: Sequence[pa.Table],
    microbatch: int,
    writer_of: WriterOf,
) -> pa.Table:
    """Join the rows of a microbatch with each other and with those kept.

    Args:
        step: The step.
        left: The left side's new rows.
        right: The right side's new rows.
        microbatch: Its id: rows that are kept are told apart by it.
        writer_of: The open writer of a vnode.

    Returns:
        The pairs: those with a kept row of the left side in the order of their keys, the others
        in the order in which their rows came.
    """
    one, other = rows_of(step, left), rows_of(step.right, right)
    writes: dict[int, list[_Entry]] = defaultdict(list)
    match step.unique:
        case "right":
            parts = _with_unique(one, other, microbatch, writer_of, writes)
        case "left":
            swapped = _with_unique(other, one, microbatch, writer_of, writes)
            parts = [(mine, theirs) for theirs, mine in swapped]
        case _:
            parts = _with_all(one, other, microbatch, writer_of, writes)
    for vnode, entries in writes.items():
        entries.sort(key=lambda entry: entry[0])
        keys, values, olds = zip(*entries, strict=True)
        writer_of(vnode).put_many(keys, values, olds)
    made = [step.out(*part) for part in parts if part[0].num_rows]
    return pa.concat_tables(made) if made else step.emitted.empty_table()


def _with_unique(
    many: Rows,
    unique: Rows,
    microbatch: int,
    writer_of: WriterOf,
    writes: dict[int, list[_Entry]],
) -> list[tuple[pa.Table, pa.Table]]:
    """Pairs of rows with the one row of their key: of rows that waited, then of new ones."""
    end = side_key(unique.step)
    known = _values(unique, end, writer_of)
    fresh = np.array([value is None for value in known], np.bool_)
    chosen = np.flatnonzero(fresh)
    rows = unique.table.take(pa.array(unique.order[unique.firsts[chosen]]))
    values = unique.step.encode(rows)
    came: dict[bytes, bytes] = {}
    for number, value in zip(chosen.tolist(), values, strict=True):
        key = unique.keys[number]
        came[key] = value
        writes[int(unique.vnodes[number])].append((key + end, value, None))
    waited = waiting(many.step, unique, fresh, writer_of)
    place = np.cumsum(fresh) - 1
    partners = place[np.array(waited.owners, np.int64)]
    old = (many.step.decode(waited.values), _taken(rows, partners))
    at = 0
    for vnode, keys in waited.keys.items():
        olds = waited.values[at : at + len(keys)]
        writes[vnode] += [(key, None, value) for key, value in zip(keys, olds, strict=True)]
        at += len(keys)
    return [old, _new(many, unique, came, microbatch, writer_of, writes)]


def _new(  # what it joins, and where it keeps the rest
    many: Rows,
    unique: Rows,
    came: dict[bytes, bytes],
    microbatch: int,
    writer_of: WriterOf,
    writes: dict[int, list[_Entry]],
) -> tuple[pa.Table, pa.Table]:
    """New rows beside the one row of their key; those without one are kept."""
    found = _values(many, side_key(unique.step), writer_of)
    if came:
        found = [
            came.get(key) if value is None else value
            for key, value in zip(many.keys, found, strict=True)
        ]
    has = np.array([value is not None for value in found], np.bool_)
    matched = has[many.group]
    rows, groups = many.table, many.group
    if not matched.all():
        _keep(many, ~matched, microbatch, writes)
        rows, groups = rows.filter(pa.array(matched)), groups[matched]
    partners = unique.step.decode([value for value in found if value is not None])
    return rows, _taken(partners, (np.cumsum(has) - 1)[groups])


def _with_all(
    left: Rows,
    right: Rows,
    microbatch: int,
    writer_of: WriterOf,
    writes: dict[int, list[_Entry]],
) -> list[tuple[pa.Table, pa.Table]]:
    """Pairs of kept rows of the left side with new ones, then of new ones with all."""
    lefts = waiting(left.step, right, np.ones(len(right.keys), np.bool_), writer_of)
    rights = waiting(right.step, left, np.ones(len(left.keys), np.bool_), writer_of)
    ours, theirs = pairs(np.array(lefts.owners, np.int64), right.group)
    old = (_taken(left.step.decode(lefts.values), ours), _taken(right.table, theirs))
    number = {key: each for each, key in enumerate(left.keys)}
    common = np.array([number.get(key, -1) for key in right.keys], np.int64)
    groups = np.concatenate([np.array(rights.owners, np.int64), common[right.group]])
    kept = right.step.decode(rights.values)
    all_rights = pa.concat_tables([kept, right.table.select(kept.column_names).cast(kept.schema)])
    ours, theirs = pairs(left.group, groups)
    new = (_taken(left.table, ours), _taken(all_rights, theirs))
    for side in (left, right):
        _keep(side, np.ones(side.table.num_rows, np.bool_), microbatch, writes)
    return [old, new]


def _values(rows: Rows, end: bytes, writer_of: WriterOf) -> list[bytes | None]:
    """What is kept of the unique side under each distinct key."""
    found: list[bytes | None] = []
    for vnode, part in rows.slices():
        found += writer_of(vnode).get_many([key + end for key in rows.keys[part]])
    return found


def _keep(
    rows: Rows,
    wanted: NDArray[np.bool_],
    microbatch: int,
    writes: dict[int, list[_Entry]],
) -> None:
    for vnode, keys, values in rows.appended(wanted, microbatch):
        writes[vnode] += [(key, value, None) for key, value in zip(keys, values, strict=True)]


def _taken(rows: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    return rows.take(pa.array(places)) if rows.num_columns else rows
