"""The rows of one side that a microbatch has to do with: those kept, and those that come and go."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.binary import BINARY, join_columns, list_from_binary
from atoll.codec.keys.columns import encode_columns
from atoll.schema import Scalar
from atoll.steps.changing_join.bound import AT
from atoll.steps.changing_join.pairing import numbered
from atoll.steps.incremental_join.rows import side_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.changing_join.bound import BoundChangingSide
    from atoll.steps.incremental_join.rows import Rows

    Numbers = NDArray[np.int64]

WriterOf = Callable[[int], "VnodeWriter"]

_INT = Scalar("int")
_TAIL_BYTES = 18
"""Of the two numbers behind the side."""
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Keys:
    """The distinct keys of both sides, by vnode and key.

    Attributes:
        keys: As stored.
        vnodes: The vnode of each.
        nulls: Whether each has a null, so that it equals nothing.
        of_sides: For each side the numbers of its distinct keys.
    """

    keys: list[bytes]
    vnodes: Numbers
    nulls: NDArray[np.bool_]
    of_sides: tuple[Numbers, Numbers]

    def slices(self, wanted: Numbers) -> Iterator[tuple[int, list[int]]]:
        """Each vnode, and which of the wanted keys are its own."""
        numbers = np.unique(wanted)
        vnodes = self.vnodes[numbers]
        for start, stop in _runs(vnodes):
            yield int(vnodes[start]), numbers[start:stop].tolist()


@dataclass
class Bag:
    """Rows of one side, equal ones once: first those kept, in the order of their keys.

    Attributes:
        step: The side.
        table: The rows.
        keys: The number of each row's key.
        entries: Under which each is kept.
        values: As what each was kept; None: it was not.
        old: How often each was there.
        delta: How often it came, less how often it went.
        matches: How many partners it had.
    """

    step: BoundChangingSide
    table: pa.Table
    keys: Numbers
    entries: list[bytes]
    values: list[bytes | None]
    old: Numbers
    delta: Numbers
    matches: Numbers

    @property
    def new(self) -> Numbers:
        """How often each is there."""
        return self.old + self.delta

    def identities(self) -> Numbers:
        """A number for each row: those that are the same row, old and new, have the same."""
        columns = self.step.identity
        if not columns:
            return np.arange(len(self.old))
        codes = [self.table.column(name).combine_chunks().dictionary_encode() for name in columns]
        return numbered([self.keys, *(each.indices.fill_null(-1).to_numpy() for each in codes)])

    def times(self) -> Numbers:
        """The time of each row."""
        found: Numbers = self.table.column(AT).to_numpy()
        return found


def keys_of(left: Rows, right: Rows) -> Keys:
    """The distinct keys of both sides."""
    nulls: dict[tuple[int, bytes], bool] = {}
    named: list[list[tuple[int, bytes]]] = []
    for rows in (left, right):
        found = list(zip(rows.vnodes.tolist(), rows.keys, strict=True))
        named.append(found)
        nulls.update(zip(found, _nulls(rows), strict=True))
    ordered = sorted(nulls)
    number = {each: place for place, each in enumerate(ordered)}
    left_numbers, right_numbers = (
        np.array([number[each] for each in found], np.int64) for found in named
    )
    return Keys(
        [key for _, key in ordered],
        np.array([vnode for vnode, _ in ordered], np.int64),
        np.array([nulls[each] for each in ordered], np.bool_),
        (left_numbers, right_numbers),
    )


def bag_of(
    rows: Rows,
    keys: Keys,
    numbers: Numbers,
    asked: Numbers,
    now: int | None,
    writer_of: WriterOf,
) -> Bag:
    """The rows of a side.

    Args:
        rows: Those that came and went.
        keys: The keys of both sides.
        numbers: Those of this side.
        asked: The keys of which all kept rows are wanted.
        now: What the clock shows.
        writer_of: The open writer of a vnode.
    """
    step: BoundChangingSide = rows.step  # type: ignore[assignment]
    asked = asked[~keys.nulls[asked]]
    kept = _kept(step, keys, asked, writer_of)
    came = step.kept_rows(rows.table, now)
    came = came.take(pa.array(rows.order)) if came.num_columns else came
    signs = step.signs(rows.table)[rows.order]
    groups = numbers[rows.group[rows.order]] if len(rows.order) else rows.order
    entries = _entries(step, rows, came)
    firsts, places = _distinct(entries)
    wanted = [entries[first] for first in firsts]
    unasked = ~np.isin(groups[firsts], asked)
    if not step.changes:  # such a row is not kept: it has no partner, and never goes
        unasked &= ~keys.nulls[groups[firsts]]
    _look_up(kept, wanted, groups[firsts], np.flatnonzero(unasked), keys.vnodes, writer_of)
    found = {entry: place for place, entry in enumerate(kept.entries)}
    fresh = [number for number, entry in enumerate(wanted) if entry not in found]
    at = np.empty(len(wanted), np.int64)
    at[fresh] = np.arange(len(fresh)) + len(found)
    for number, entry in enumerate(wanted):
        if entry in found:
            at[number] = found[entry]
    count = len(found) + len(fresh)
    delta = np.zeros(count, np.int64)
    np.add.at(delta, at[places], signs)
    table, old, matches = step.restored(kept.values)
    added = [firsts[number] for number in fresh]
    if table.num_columns:
        table = pa.concat_tables([table, came.take(pa.array(added, pa.int64()))]).combine_chunks()
    nothing = np.zeros(len(fresh), np.int64)
    bag = Bag(
        step,
        table,
        np.concatenate([np.array(kept.keys, np.int64), groups[added]]),
        kept.entries + [wanted[number] for number in fresh],
        [*kept.values, *[None] * len(fresh)],
        np.concatenate([old, nothing]),
        delta,
        np.concatenate([matches, nothing]),
    )
    bag.delta = _allowed(bag, keys)
    return bag


@dataclass
class _Kept:
    """Kept rows: under what, as what, and the numbers of their keys."""

    entries: list[bytes]
    values: list[bytes]
    keys: list[int]


def _kept(step: BoundChangingSide, keys: Keys, asked: Numbers, writer_of: WriterOf) -> _Kept:
    """All kept rows of some keys."""
    found = _Kept([], [], [])
    end = side_key(step)
    for vnode, numbers in keys.slices(asked):
        prefixes = [keys.keys[number] + end for number in numbers]
        for number, entries in zip(
            numbers, writer_of(vnode).under(prefixes, _TAIL_BYTES), strict=True
        ):
            found.entries += [entry for entry, _ in entries]
            found.values += [value for _, value in entries]
            found.keys += [number] * len(entries)
    return found


def _look_up(  # what it adds to, which rows, and where they are
    kept: _Kept,
    entries: Sequence[bytes],
    groups: Numbers,
    wanted: Numbers,
    vnode_of: Numbers,
    writer_of: WriterOf,
) -> None:
    """Add those of the wanted entries that are kept; they come in the order of their keys."""
    vnodes = vnode_of[groups[wanted]]
    for start, stop in _runs(vnodes):
        places = wanted[start:stop].tolist()
        values = writer_of(int(vnodes[start])).get_many([entries[each] for each in places])
        for place, value in zip(places, values, strict=True):
            if value is not None:
                kept.entries.append(entries[place])
                kept.values.append(value)
                kept.keys.append(int(groups[place]))


def _entries(step: BoundChangingSide, rows: Rows, came: pa.Table) -> list[bytes]:
    """Under what each row is kept: its key, the side, and two numbers that follow from it."""
    if not len(rows.order):
        return []
    table = came if came.num_columns else rows.table
    values = step.codec.encode_columns(step.physical(table))
    digests = b"".join(
        hashlib.blake2b(value, digest_size=_DIGEST_BYTES).digest() for value in values
    )
    halves = np.frombuffer(digests, ">i8").astype(np.int64).reshape(-1, 2)
    tails = encode_columns([pa.array(halves[:, 0]), pa.array(halves[:, 1])], [_INT, _INT])
    side = pa.scalar(side_key(step), BINARY)
    return list_from_binary(join_columns([rows.sorted_keys.to_arrow(), side, tails.to_arrow()]))


def _distinct(entries: Sequence[bytes]) -> tuple[Numbers, Numbers]:
    """Where each distinct entry is first, and for each the number of its distinct one."""
    index: dict[bytes, int] = {}
    places = np.array([index.setdefault(entry, len(index)) for entry in entries], np.int64)
    _, firsts = np.unique(places, return_index=True)
    return firsts.astype(np.int64), places


def _allowed(bag: Bag, keys: Keys) -> Numbers:
    """What comes and goes: nothing goes that is not kept; of a unique side the first row stays."""
    delta = np.maximum(bag.delta, -bag.old)
    if not bag.step.unique:
        return delta
    here = np.flatnonzero((delta > 0) & ~keys.nulls[bag.keys])
    taken = np.unique(bag.keys[bag.old > 0])
    free = here[~np.isin(bag.keys[here], taken)]
    _, firsts = np.unique(bag.keys[free], return_index=True)
    delta[here] = 0
    delta[free[firsts]] = 1
    return delta


def _nulls(rows: Rows) -> list[bool]:
    """Whether each distinct key has a null."""
    firsts = pa.array(rows.order[rows.firsts])
    found = np.zeros(len(rows.keys), np.bool_)
    for element in rows.step.elements:
        column = rows.table.column(str(element.column)).take(firsts)
        found |= column.is_null().to_numpy()
    return found.tolist()


def _runs(numbers: Numbers) -> Iterator[tuple[int, int]]:
    """Where each run of equal numbers begins and ends."""
    edges = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *edges.tolist(), len(numbers)] if len(numbers) else []
    yield from itertools.pairwise(bounds)
