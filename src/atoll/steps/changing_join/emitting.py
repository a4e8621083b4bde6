"""Writes down how a join changed: rows that go beside the rows that come in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.steps.changing_join.pairing import numbered, same

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.steps.changing_join.bags import Bag
    from atoll.steps.changing_join.bound import BoundChangingJoin

    Numbers = NDArray[np.int64]
    Refs = tuple[Numbers, Numbers]
    """The left and the right row of each row of the result; -1: none."""


def emitted(
    step: BoundChangingJoin, one: Bag, other: Bag, made: tuple[Numbers, Numbers, Numbers]
) -> pa.Table:
    """The changes, or the rows where none ever goes.

    Args:
        step: The join.
        one: The left side's rows.
        other: The right side's.
        made: The left and right rows of the result's, and how often each comes; less than 0: goes.
    """
    gone, come = _repeated(made, -1), _repeated(made, 1)
    if step.only_adds:
        return pa.Table.from_arrays(_columns(step, one, other, come), schema=step.emitted)
    old, new = _paired(one, other, gone, come)
    present = [np.maximum(each[0], each[1]) >= 0 for each in (old, new)]
    either = tuple(np.where(present[1], n, o) for o, n in zip(old, new, strict=True))
    structs = [
        _struct(_columns(step, one, other, refs), step.row, there)
        for refs, there in zip((old, new), present, strict=True)
    ]
    keys = _keys(step, one, other, (either[0], either[1]))
    return pa.Table.from_arrays([*keys, *structs], schema=step.emitted)


def _repeated(made: tuple[Numbers, Numbers, Numbers], sign: int) -> Refs:
    left, right, times = made
    wanted = times * sign > 0
    counts = np.abs(times[wanted])
    return np.repeat(left[wanted], counts), np.repeat(right[wanted], counts)


def _paired(one: Bag, other: Bag, gone: Refs, come: Refs) -> tuple[Refs, Refs]:
    """Old and new row of each change: first what goes alone, then what changes, then what comes.

    What goes and what comes is one change when both rows are the same ones, else when the left
    one is, else when the right one is.
    """
    split = len(gone[0])
    key = np.concatenate([_key(one, other, each) for each in (gone, come)])
    codes = [
        _codes(bag, key, np.concatenate([gone[at], come[at]]))
        for at, bag in enumerate((one, other))
    ]
    both = numbered([key, *codes])
    free = [np.arange(split), np.arange(split, len(key))]
    olds, news = [], []
    for code in (both, *codes):
        first, second = same(code[free[0]], code[free[1]])
        olds.append(free[0][first])
        news.append(free[1][second])
        free = [np.delete(free[0], first), np.delete(free[1], second)]
    alone = np.full(len(free[0]), -1), np.full(len(free[1]), -1)
    old = np.concatenate([free[0], *olds, alone[1]])
    new = np.concatenate([alone[0], *news, free[1]])
    return _refs(gone, old, 0), _refs(come, new, split)


def _refs(refs: Refs, places: Numbers, first: int) -> Refs:
    """The rows at places; none where a place is -1."""
    if not len(refs[0]):
        nothing = np.full(len(places), -1)
        return nothing, nothing
    left, right = (np.where(places < 0, -1, each[np.maximum(places - first, 0)]) for each in refs)
    return left, right


def _key(one: Bag, other: Bag, refs: Refs) -> Numbers:
    """The number of the key of each row."""
    keys = [
        np.where(each < 0, -1, bag.keys[each] if len(bag.keys) else -1)
        for bag, each in zip((one, other), refs, strict=True)
    ]
    return np.maximum(*keys)


def _codes(bag: Bag, key: Numbers, rows: Numbers) -> Numbers:
    """A number for each row of a side: the same for what is the same row; -1: none."""
    if not len(bag.old):
        return np.full(len(rows), -1)
    return np.where(rows < 0, -1, numbered([key, bag.identities()[rows]]))


def _columns(step: BoundChangingJoin, one: Bag, other: Bag, refs: Refs) -> list[pa.Array]:
    """The columns of rows of the result."""
    places = [pa.array(each, mask=each < 0) for each in refs]
    columns = []
    for name in step.row.names:
        found = [
            bag.table.column(name).combine_chunks().take(place)
            for bag, place in zip((one, other), places, strict=True)
            if name in bag.step.kept
        ]
        columns.append(_either(found, step.row.field(name).type))
    return columns


def _keys(step: BoundChangingJoin, one: Bag, other: Bag, refs: Refs) -> list[pa.Array]:
    """The keys of rows, from the side that is there."""
    places = [pa.array(each, mask=each < 0) for each in refs]
    columns = []
    for number, name in enumerate(step.keys):
        found = [one.table.column(name).combine_chunks().take(places[0])]
        theirs = str(step.right.elements[number].column)
        if theirs in step.right.kept:
            found.append(other.table.column(theirs).combine_chunks().take(places[1]))
        columns.append(_either(found, step.emitted.field(number).type))
    return columns


def _either(found: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """The first that is not null."""
    cast = [each.cast(kind) for each in found]
    return cast[0] if len(cast) == 1 else pc.coalesce(*cast)


def _struct(columns: list[pa.Array], row: pa.Schema, there: NDArray[np.bool_]) -> pa.Array:
    return pa.StructArray.from_arrays(columns, fields=list(row), mask=pa.array(~there))
