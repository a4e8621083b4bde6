"""Rebalancing: who owns which vnode after parallel units came and went.

Every unit of the result owns ``q`` vnodes or, for ``r`` of them, one more, where
``q, r = divmod(vnodes, units)``; a unit with ``q + 1`` is called *long* here.

**The fewest vnodes move.** A unit that stays keeps at most what it has, and at most its share. So
no even mapping moves fewer than :func:`moves_least`, and the plans that move so many are those in
which each unit keeps as much as it may. This leaves open which units are long, which vnodes a
unit sheds, and who takes them.

**Of these plans, the fewest bytes move.** A vnode moves no bytes when its new unit is on the same
worker. So a worker whose units shed more than its units lack must let the difference leave, and
lets its smallest vnodes leave. A unit that becomes long sheds one vnode less, or takes one more,
which saves one of those that leave its worker; the largest are saved first. What may leave, and
what may be saved of it, are independent sets of matroids, where being greedy is optimal; and who
leaves when more units are long is a part of who leaves when fewer are. So the result is exact,
with workers and without. Without sizes all vnodes count the same: the fewest change their worker.

**What is still equal is decided by order**, which is a heuristic for keeping neighbours together:
high vnodes are shed first, and units take runs of vnodes in the order of their ids; units that take
none otherwise become long last. Nothing depends on the order of the arguments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice

import msgspec

from atoll.errors import UsageError
from atoll.placement.mapping import Mapping


class Move(msgspec.Struct, frozen=True):
    """A vnode that gets another owner.

    Attributes:
        vnode: Which one.
        source: The unit that owned it.
        target: The unit that owns it now.
    """

    vnode: int
    source: int
    target: int


def moves(before: Mapping, after: Mapping) -> list[Move]:
    """What changes between two mappings of the same vnodes, by vnode.

    Raises:
        UsageError: When they have different vnode counts.
    """
    if before.vnode_count != after.vnode_count:
        raise UsageError(
            f"mappings of {before.vnode_count} and of {after.vnode_count} vnodes do not compare",
            hint="compare mappings of the same fragment",
        )
    owners = zip(before.units, after.units, strict=True)
    return [
        Move(vnode, source, target)
        for vnode, (source, target) in enumerate(owners)
        if source != target
    ]


def moves_least(mapping: Mapping, added: Iterable[int], removed: Iterable[int]) -> int:
    """How many vnodes any even mapping must move after such a change; :func:`rebalance` does so.

    Args:
        mapping: The mapping before; it need not be even.
        added: The units that come.
        removed: The units that go.

    Raises:
        UsageError: When the change cannot be.
    """
    units = _units_after(mapping, frozenset(added), frozenset(removed))
    quotient, longer = divmod(mapping.vnode_count, len(units))
    counts = Counter(mapping.units)
    kept = sum(min(counts[unit], quotient) for unit in units)
    return mapping.vnode_count - kept - min(sum(counts[unit] > quotient for unit in units), longer)


def rebalance(
    mapping: Mapping,
    *,
    added: Iterable[int],
    removed: Iterable[int],
    worker_of: Callable[[int], int] | None = None,
    sizes: Sequence[int] | None = None,
) -> Mapping:
    """The even mapping after units came and went that moves the fewest vnodes, then bytes.

    Args:
        mapping: The mapping before; it need not be even.
        added: The units that come.
        removed: The units that go. One that also comes is rebuilt in place: it stays.
        worker_of: Which worker a unit, old or new, is on; without it, each is on its own.
        sizes: The bytes of vnode 0, 1, 2 and so on; without it, all are the same.

    Raises:
        UsageError: When a removed unit owns nothing, an added one is there already, no unit or
            more units than vnodes would be left, or the sizes are not one per vnode.
    """
    units = _units_after(mapping, frozenset(added), frozenset(removed))
    involved = {*mapping.units, *units}
    workers = {unit: unit if worker_of is None else worker_of(unit) for unit in involved}
    case = _Case(mapping.units, Counter(mapping.units), workers, _cheapest_first(mapping, sizes))
    return Mapping(tuple(_hand_over(case, _shares(case, units))))


@dataclass(frozen=True, slots=True)
class _Case:
    """What a plan starts from: owners by vnode, counts and workers by unit, vnodes by cost."""

    owners: tuple[int, ...]
    counts: Counter[int]
    workers: dict[int, int]
    cheapest_first: Sequence[int]

    def by_worker(self, counts: Counter[int]) -> Counter[int]:
        """Counts by unit, added up by worker."""
        totals: Counter[int] = Counter()
        for unit, count in counts.items():
            totals[self.workers[unit]] += count
        return totals

    def leaving(self, surplus: Counter[int], lack: Counter[int]) -> list[int]:
        """The vnodes to shed that the units of the same worker have no room for."""
        return self.cheapest(surplus, self.by_worker(surplus) - self.by_worker(lack))

    def cheapest(self, of_unit: Counter[int], of_worker: Counter[int]) -> list[int]:
        """The cheapest vnodes, up to so many of each unit and of each worker."""
        if not of_worker:
            return []
        unit_left, worker_left = dict(of_unit), dict(of_worker)
        found = []
        for vnode in self.cheapest_first:
            unit = self.owners[vnode]
            worker = self.workers[unit]
            if unit_left.get(unit) and worker_left.get(worker):
                unit_left[unit] -= 1
                worker_left[worker] -= 1
                found.append(vnode)
        return found


def _units_after(
    mapping: Mapping, added: AbstractSet[int], removed: AbstractSet[int]
) -> tuple[int, ...]:
    before = frozenset(mapping.units)
    if unknown := sorted(removed - before):
        raise UsageError(
            f"parallel unit {unknown[0]} owns no vnode, so it cannot be removed",
            hint=f"remove some of {sorted(before)}",
        )
    if present := sorted(added & (before - removed)):
        raise UsageError(
            f"parallel unit {present[0]} owns vnodes already, so it cannot be added",
            hint="add other units, or remove it as well to rebuild it in place",
        )
    units = sorted((before - removed) | added)
    if not 1 <= len(units) <= mapping.vnode_count:
        raise UsageError(
            f"{mapping.vnode_count} vnodes cannot be shared by {len(units)} parallel units",
            hint=f"leave 1 to {mapping.vnode_count} parallel units",
        )
    return tuple(units)


def _cheapest_first(mapping: Mapping, sizes: Sequence[int] | None) -> Sequence[int]:
    """The vnodes by size, those of equal size from the highest down."""
    highest_first = range(mapping.vnode_count - 1, -1, -1)
    if sizes is None:
        return highest_first
    if len(sizes) != mapping.vnode_count:
        raise UsageError(
            f"{len(sizes)} sizes do not fit {mapping.vnode_count} vnodes",
            hint="give the bytes of every vnode",
        )
    return sorted(highest_first, key=sizes.__getitem__)


def _shares(case: _Case, units: tuple[int, ...]) -> Counter[int]:
    """How many vnodes each unit is to own."""
    quotient, longer = divmod(len(case.owners), len(units))
    shares = Counter(dict.fromkeys(units, quotient))
    full = {unit for unit in units if case.counts[unit] > quotient}
    candidates = full
    if len(full) <= longer:
        shares.update(full)
        candidates = set(units) - full
        longer -= len(full)
    if longer:
        shares.update(_long(case, shares, candidates, longer))
    return shares


def _long(case: _Case, shares: Counter[int], candidates: set[int], count: int) -> list[int]:
    """Which of the candidates get one vnode above their shares: those that save most bytes.

    Where it saves none, those come first that take vnodes anyway, so that others stay untouched.
    """
    surplus, lack = case.counts - shares, shares - case.counts
    leaving = case.leaving(surplus, lack)
    out = Counter(case.owners[vnode] for vnode in leaving)
    bound = {unit for unit in candidates if 0 < out[unit] == surplus[unit]}
    free = Counter(case.workers[unit] for unit in candidates - bound)
    saved = [case.owners[vnode] for vnode in _savable(case, leaving, bound, free)[:count]]
    wanted = Counter(case.workers[unit] for unit in saved)
    long, spare = list[int](), list[int]()
    willing = candidates - bound.difference(saved)
    for unit in sorted(willing, key=lambda unit: (not lack[unit], unit)):
        worker = case.workers[unit]
        if wanted[worker]:
            wanted[worker] -= 1
            long.append(unit)
        else:
            spare.append(unit)
    return long + spare[: count - len(long)]


def _savable(
    case: _Case, leaving: list[int], bound: AbstractSet[int], free: Counter[int]
) -> list[int]:
    """The vnodes that need not leave if units become long, the dearest first.

    A unit from which everything that it sheds leaves is bound: it saves a vnode of its own, and
    is free from then on. A free one saves whichever of its worker is the dearest.
    """
    bound, free = set(bound), Counter(free)
    found = []
    for vnode in reversed(leaving):
        unit = case.owners[vnode]
        worker = case.workers[unit]
        if unit in bound:
            bound.remove(unit)
        elif free[worker]:
            free[worker] -= 1
        else:
            continue
        found.append(vnode)
    return found


def _hand_over(case: _Case, shares: Counter[int]) -> list[int]:
    """The owners after each unit shed what is above its share and took what it lacked."""
    surplus, lack = case.counts - shares, shares - case.counts
    shed = case.cheapest(surplus, case.by_worker(surplus))
    leaving = sorted(case.leaving(surplus, lack))
    staying: dict[int, list[int]] = defaultdict(list)
    for vnode in sorted(set(shed).difference(leaving)):
        staying[case.workers[case.owners[vnode]]].append(vnode)
    arriving = iter(leaving)
    within = {worker: iter(vnodes) for worker, vnodes in staying.items()}
    owners = list(case.owners)
    for unit, count in sorted(lack.items()):
        own = within.get(case.workers[unit], iter(()))
        for vnode in islice(chain(own, arriving), count):
            owners[vnode] = unit
    return owners
