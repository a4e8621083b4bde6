"""How a join changes as rows of both sides come and go: ``(L + dL)(R + dR) - LR``, by key.

What is new are the pairs of rows that came or went on the left with all that are on the right now,
and those of the rows that were on the left with what came or went on the right. A row that comes
out without a partner does so while it has none, so each kept row says how many it has.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.steps.changing_join.bags import Bag, bag_of, keys_of
from atoll.steps.changing_join.emitting import emitted
from atoll.steps.changing_join.forgetting import forget, forgotten_at
from atoll.steps.changing_join.pairing import added_up, pairs
from atoll.steps.incremental_join.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from atoll.engine.step import Work
    from atoll.steps.changing_join.bags import Keys
    from atoll.steps.changing_join.bound import BoundChangingJoin

    Numbers = NDArray[np.int64]

_Entry = tuple[bytes, bytes | None, bytes | None]
"""Key, new value and old value."""
_NULL = (-1, -2)
"""What keys with a null are on either side: equal to nothing."""


@dataclass(frozen=True)
class _Met:
    """Pairs of rows, by their positions in the bags."""

    left: Numbers
    right: Numbers

    def where(self, wanted: NDArray[np.bool_]) -> _Met:
        """Those of them."""
        return _Met(self.left[wanted], self.right[wanted])


def join(
    step: BoundChangingJoin, left: Sequence[pa.Table], right: Sequence[pa.Table], work: Work
) -> pa.Table:
    """How the join changes with the rows of a microbatch.

    Args:
        step: The step.
        left: The left side's rows that came and went.
        right: The right side's.
        work: The open stores, and what time it is.

    Returns:
        The changes: rows that go, then those that change, then those that come; or the rows.
    """
    now = None if step.times is None else work.times.of(step.clock)
    writer_of = functools.partial(work.writer, step.pstate)
    rows = rows_of(step, left), rows_of(step.right, right)
    keys = keys_of(*rows)
    ours, theirs = keys.of_sides
    one = bag_of(rows[0], keys, ours, _asked(theirs, ours, step.unique), now, writer_of)
    unique = step.right.unique
    other = bag_of(rows[1], keys, theirs, _asked(ours, theirs, unique), now, writer_of)
    came, were = _met(step, one, other, keys)
    partners = (
        _partners(one, (were.left, other.delta[were.right]), (came.left, other.new[came.right])),
        _partners(other, *_of_right(step, one, other, keys)),
    )
    made = added_up(*_changes(step, (one, other), partners, (came, were)))
    result = emitted(step, one, other, made)
    _write(step, (one, other), partners, keys, work)
    if step.times is not None:
        work.agenda[step.times] = forget(step, sorted({*keys.vnodes.tolist()}), now, work)
    return result


def _asked(others: Numbers, own: Numbers, unique: bool) -> Numbers:  # noqa: FBT001  # of a side
    """The keys of which a side's kept rows are wanted: the other's, and its own where it counts."""
    return np.union1d(others, own) if unique else others


def _met(step: BoundChangingJoin, one: Bag, other: Bag, keys: Keys) -> tuple[_Met, _Met]:
    """Rows that came or went with all that are there; those that were with what came or went."""
    return (
        _pairs(step, one, other, keys, (one.delta != 0, other.new > 0)),
        _pairs(step, one, other, keys, (one.old > 0, other.delta != 0)),
    )


def _of_right(
    step: BoundChangingJoin, one: Bag, other: Bag, keys: Keys
) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """What rows of the right side gained on the left: those that were, and those that came."""
    if not _counts_partners(step, other):
        nothing = np.zeros(0, np.int64)
        return (nothing, nothing), (nothing, nothing)
    were = _pairs(step, one, other, keys, (one.delta != 0, other.old > 0))
    came = _pairs(step, one, other, keys, (one.new > 0, other.delta != 0))
    return (were.right, one.delta[were.left]), (came.right, one.new[came.left])


def _pairs(
    step: BoundChangingJoin,
    one: Bag,
    other: Bag,
    keys: Keys,
    wanted: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> _Met:
    """The rows of both sides that belong together, among the wanted ones."""
    places = [np.flatnonzero(each) for each in wanted]
    numbers = [
        np.where(keys.nulls[bag.keys[place]], null, bag.keys[place])
        for bag, place, null in zip((one, other), places, _NULL, strict=True)
    ]
    left, right = pairs(*numbers)
    met = _Met(places[0][left], places[1][right])
    if step.within is None:
        return met
    apart = other.times()[met.right] - one.times()[met.left]
    return met.where((apart >= step.within.lower_ms) & (apart <= step.within.upper_ms))


def _partners(bag: Bag, gained: tuple[Numbers, Numbers], found: tuple[Numbers, Numbers]) -> Numbers:
    """How many partners each row has now: of kept rows what they had and gained.

    Of rows that were not kept what they found.
    """
    matches = bag.matches.copy()
    np.add.at(matches, *gained)
    fresh = bag.old[found[0]] == 0
    np.add.at(matches, found[0][fresh], found[1][fresh])
    return matches


def _changes(
    step: BoundChangingJoin,
    bags: tuple[Bag, Bag],
    partners: tuple[Numbers, Numbers],
    met: tuple[_Met, _Met],
) -> tuple[Numbers, Numbers, Numbers]:
    """Rows of the result by their left and right rows (-1: none), and how often each comes."""
    one, other = bags
    came, were = met
    parts: list[tuple[Numbers, Numbers, Numbers]] = []
    if step.one_sided:
        here = step.how == "left_semi"
        parts.append(_alone(one, partners[0], with_partner=here))
    else:
        parts.append((came.left, came.right, one.delta[came.left] * other.new[came.right]))
        parts.append((were.left, were.right, one.old[were.left] * other.delta[were.right]))
        if step.preserved:
            parts.append(_alone(one, partners[0], with_partner=False))
        if step.right.preserved:
            right, nothing, times = _alone(other, partners[1], with_partner=False)
            parts.append((nothing, right, times))
    left, right, times = (np.concatenate(each) for each in zip(*parts, strict=True))
    return left, right, times


def _alone(bag: Bag, partners: Numbers, *, with_partner: bool) -> tuple[Numbers, Numbers, Numbers]:
    """Rows that come out by themselves, because they have a partner or because they have none."""
    was = bag.old * ((bag.matches > 0) == with_partner)
    now = bag.new * ((partners > 0) == with_partner)
    return np.arange(len(bag.old)), np.full(len(bag.old), -1), now - was


def _write(
    step: BoundChangingJoin,
    bags: tuple[Bag, Bag],
    partners: tuple[Numbers, Numbers],
    keys: Keys,
    work: Work,
) -> None:
    """Keep what is there now, as often as it is, and when to forget it."""
    states: dict[int, list[_Entry]] = defaultdict(list)
    times: dict[int, dict[bytes, bytes | None]] = defaultdict(dict)
    for bag, other, matches in zip(bags, bags[::-1], partners, strict=True):
        stays = (bag.new > 0) & ~_done(step, bag, other, matches, keys)
        put = np.flatnonzero(stays & ((bag.delta != 0) | (matches != bag.matches)))
        gone = np.flatnonzero(~stays & (bag.old > 0))
        values = [*_stored(bag, put, matches), *[None] * len(gone)]
        ends = forgotten_at(bag) if bag.step.times is not None else None
        places = np.concatenate([put, gone])
        vnodes = keys.vnodes[bag.keys[places]].tolist()
        for place, vnode, value in zip(places.tolist(), vnodes, values, strict=True):
            entry, old = bag.entries[place], bag.values[place]
            states[vnode].append((entry, value, old))
            if ends is not None and (value is None or old is None):
                times[vnode][ends[place] + entry] = None if value is None else b""
    for vnode, entries in states.items():
        entries.sort(key=lambda entry: entry[0])
        names, news, olds = zip(*entries, strict=True)
        work.writer(step.pstate, vnode).put_many(names, news, olds)
    for vnode, index in times.items():
        ordered = sorted(index)
        work.writer(str(step.times), vnode).put_many(ordered, [index[each] for each in ordered])


def _done(
    step: BoundChangingJoin, bag: Bag, other: Bag, matches: Numbers, keys: Keys
) -> NDArray[np.bool_]:
    """Which rows nothing can happen to any more, so that they need not be kept."""
    if bag.step.changes:
        return np.zeros(len(bag.old), np.bool_)
    done = keys.nulls[bag.keys]
    if bag.step.unique:  # by it later ones of its key are known
        return done
    final = not other.step.changes and (other.step.unique or step.one_sided)
    return done | (matches > 0) if final and _counts_partners(step, bag) else done


def _counts_partners(step: BoundChangingJoin, bag: Bag) -> bool:
    """Whether the number of partners of its rows counts."""
    return bag.step.side == "left" or bag.step.preserved or step.unique


def _stored(bag: Bag, places: Numbers, matches: Numbers) -> list[bytes]:
    if not len(places):
        return []
    table = bag.table
    columns = [pa.repeat(pa.scalar(value=True), len(places))]
    if table.num_columns:
        columns = bag.step.physical(table.take(pa.array(places)))
    counts = [pa.array(bag.new[places]), pa.array(matches[places])]
    return bag.step.stored.encode_columns([*columns, *counts])
