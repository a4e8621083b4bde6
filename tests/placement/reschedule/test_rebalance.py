"""Rebalancing: even, covering, deterministic; the fewest vnodes move, then the fewest bytes.

Small cases are compared with every even mapping there is; 100,000 random steps with the bound.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import UsageError
from atoll.placement.mapping import Mapping
from atoll.placement.reschedule.rebalance import Move, moves, moves_least, rebalance

IDS = range(6)
SIZES = (0, 1, 2, 3, 5, 8, 13, 21, 22, 100)
UNIT_COUNTS = (1, 3, 12, 42, 256)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Mapping, list[int], list[int]]:
    """A mapping, even or not, and units to add and to remove, some of them to rebuild."""
    mapping = Mapping(tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=60))))
    removed = draw(st.lists(st.sampled_from(mapping.unit_ids()), unique=True))
    kept = set(mapping.unit_ids()) - set(removed)
    others = sorted(set(range(15)) - kept)
    room = mapping.vnode_count - len(kept)
    added = draw(
        st.lists(
            st.sampled_from(others),
            unique=True,
            min_size=0 if kept else 1,
            max_size=min(room, len(others)),
        )
    )
    return mapping, added, removed


def random_change(
    rng: random.Random, mapping: Mapping, ids: range, limit: int
) -> tuple[list[int], list[int]]:
    """Units to add and to remove: only adding, only removing, both, or rebuilding."""
    present = list(mapping.unit_ids())
    absent = [unit for unit in ids if unit not in present]
    kind = rng.choice(("out", "in", "mixed", "mixed", "rebuild"))
    removed = [] if kind == "out" else rng.sample(present, rng.randint(0, len(present)))
    if kind == "rebuild":
        return removed, removed
    room = min(limit, mapping.vnode_count) - (len(present) - len(removed))
    most = 0 if kind == "in" else min(room, len(absent))
    added = rng.sample(absent, rng.randint(0, max(0, most)))
    if not added and len(removed) == len(present):
        removed.pop()
    return added, removed


def check_even_and_least(
    before: Mapping, after: Mapping, added: list[int], removed: list[int]
) -> None:
    """The right units, evenly, with no more moves than the bound."""
    units = (set(before.unit_ids()) - set(removed)) | set(added)
    quotient = before.vnode_count // len(units)
    counts = after.counts()
    assert units == set(counts)
    assert set(counts.values()) <= {quotient, quotient + 1}
    assert before.vnode_count == after.vnode_count
    moved = sum(map(int.__ne__, before.units, after.units))
    assert moved == moves_least(before, added, removed)


@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_thousand_random_steps(seed: int) -> None:
    """25,000 steps a seed, each from where the last one led; also with sizes and with workers.

    Every twentieth is asked again with the arguments the other way round.
    """
    rng = random.Random(seed)
    steps = 0
    while steps < 25_000:
        vnode_count = 256 if rng.random() < 0.01 else rng.randint(1, 24)
        ids = range(rng.randint(2, 10))
        limit = rng.randint(1, len(ids))
        mapping = Mapping.even(vnode_count, rng.sample(ids, min(limit, vnode_count)))
        per_worker = rng.randint(1, 8)
        worker_of = (lambda unit, n=per_worker: unit // n) if rng.random() < 0.5 else None
        sizes = rng.choices(SIZES, k=vnode_count) if rng.random() < 0.5 else None
        for _ in range(25):
            added, removed = random_change(rng, mapping, ids, limit)
            after = rebalance(
                mapping, added=added, removed=removed, worker_of=worker_of, sizes=sizes
            )
            check_even_and_least(mapping, after, added, removed)
            if steps % 20 == 0:
                assert after == rebalance(
                    mapping,
                    added=added[::-1],
                    removed=removed[::-1],
                    worker_of=worker_of,
                    sizes=sizes,
                )
            mapping = after
            steps += 1


@given(changes())
def test_mappings_that_were_not_even_become_so(drawn: tuple) -> None:
    """From any mapping, with the fewest moves; then nothing is left to do."""
    mapping, added, removed = drawn
    after = rebalance(mapping, added=added, removed=removed)
    check_even_and_least(mapping, after, added, removed)
    assert after == rebalance(after, added=(), removed=())


@given(changes())
def test_units_that_stay_keep_what_they_may(drawn: tuple) -> None:
    """Such a unit only sheds or only takes, whichever its share asks for."""
    mapping, added, removed = drawn
    after = rebalance(mapping, added=added, removed=removed)
    for unit in set(mapping.unit_ids()) & set(after.unit_ids()):
        before, now = set(mapping.vnodes(unit)), set(after.vnodes(unit))
        assert before <= now or now <= before


@given(changes(), st.data())
def test_arguments_are_sets(drawn: tuple, data: st.DataObject) -> None:
    """Their order does not matter, nor does naming a unit twice; any iterable will do."""
    mapping, added, removed = drawn
    expected = rebalance(mapping, added=added, removed=removed)
    others = data.draw(st.permutations(added)) + added
    assert expected == rebalance(mapping, added=iter(others), removed=iter(removed[::-1]))
    assert len(moves(mapping, expected)) == moves_least(mapping, iter(others), iter(removed * 2))


# Compared with all plans ------------------------------------------------------------------------


@cache
def even_plans(vnode_count: int, unit_count: int) -> np.ndarray:
    """Every even mapping of so many vnodes to units 0, 1, 2 and so on: one a row."""
    rows = np.array(list(product(range(unit_count), repeat=vnode_count)))
    counts = (rows[:, :, None] == np.arange(unit_count)).sum(axis=1)
    return rows[counts.max(axis=1) - counts.min(axis=1) <= 1]


def costs(
    before: np.ndarray, plans: np.ndarray, workers: np.ndarray, sizes: np.ndarray
) -> list[tuple[int, int, int]]:
    """For each plan: vnodes that move, bytes that move, vnodes that change their worker."""
    away = workers[plans] != workers[before]
    columns = (plans != before).sum(axis=1), (away * sizes).sum(axis=1), away.sum(axis=1)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def on_their_own(_: random.Random) -> list[int]:
    """Every unit is a worker."""
    return list(IDS)


def on_few_workers(rng: random.Random) -> list[int]:
    """Units share one to four workers."""
    return rng.choices(range(rng.randint(1, 4)), k=len(IDS))


@pytest.mark.parametrize("placed", [on_their_own, on_few_workers])
@pytest.mark.parametrize("sized", [False, True])
def test_no_plan_is_better(placed: Callable, sized: bool) -> None:
    """Of all even mappings none moves fewer vnodes, or as few and fewer bytes.

    And none of these has fewer vnodes change their worker, even where they are empty.
    """
    rng = random.Random(f"{placed.__name__} {sized}")
    for _ in range(1_200):
        mapping = Mapping(
            tuple(rng.choices(rng.sample(IDS, rng.randint(1, 4)), k=rng.randint(1, 7)))
        )
        added, removed = random_change(rng, mapping, IDS, 4)
        workers = placed(rng)
        sizes = rng.choices(SIZES, k=mapping.vnode_count) if sized else None
        after = rebalance(
            mapping,
            added=added,
            removed=removed,
            worker_of=None if placed is on_their_own else workers.__getitem__,
            sizes=sizes,
        )
        units = np.array(sorted((set(mapping.units) - set(removed)) | set(added)))
        plans = units[even_plans(mapping.vnode_count, len(units))]
        given_costs = (
            np.array(mapping.units),
            np.array(workers),
            np.array(sizes or [1] * mapping.vnode_count),
        )
        before, *known = given_costs
        (cost,) = costs(before, np.array([after.units]), *known)
        assert min(costs(before, plans, *known)) == cost
        assert moves_least(mapping, added, removed) == cost[0]


# What a person expects --------------------------------------------------------------------------


@pytest.mark.parametrize("units", [1, 3, 42, 256])
def test_nothing_to_do_changes_nothing(units: int) -> None:
    """An even mapping stays bit for bit."""
    mapping = Mapping.even(256, range(units))
    assert mapping == rebalance(mapping, added=(), removed=())
    assert moves_least(mapping, (), ()) == 0


def test_a_unit_rebuilt_in_place_keeps_its_vnodes() -> None:
    """In both lists: it stays, alone or beside a change of others."""
    mapping = Mapping.even(12, [0, 1, 2])
    assert mapping == rebalance(mapping, added=[1], removed=[1])
    assert mapping == rebalance(mapping, added=[0, 1, 2], removed=[0, 1, 2])
    after = rebalance(mapping, added=[1, 3], removed=[1, 2])
    assert mapping.vnodes(1) == after.vnodes(1)
    assert mapping.vnodes(2) == after.vnodes(3)


def test_high_vnodes_are_shed_and_runs_are_taken() -> None:
    """Without sizes: neighbours stay neighbours."""
    mapping = Mapping.even(12, [0, 1])
    after = rebalance(mapping, added=[2, 3], removed=[])
    assert after.units == (0, 0, 0, 2, 2, 2, 1, 1, 1, 3, 3, 3)
    back = rebalance(after, added=[], removed=[2, 3])
    assert back.units == (0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1)


def test_a_unit_sheds_its_smallest_vnodes() -> None:
    """The hot ones stay where they are."""
    mapping = Mapping.even(8, [0, 1])
    after = rebalance(mapping, added=[2], removed=[], sizes=[9, 1, 9, 9, 9, 9, 2, 9])
    assert moves(mapping, after) == [Move(1, 0, 2), Move(6, 1, 2)]


def test_the_long_units_are_those_whose_next_vnode_is_the_largest() -> None:
    """Five vnodes each, to be shared by three: one of the two keeps a fourth."""
    mapping = Mapping.even(10, [0, 1])
    sizes = [10, 10, 10, 5, 1, 10, 10, 10, 6, 4]
    after = rebalance(mapping, added=[2], removed=[], sizes=sizes)
    assert after.counts() == {0: 3, 1: 4, 2: 3}
    assert moves(mapping, after) == [Move(3, 0, 2), Move(4, 0, 2), Move(9, 1, 2)]


def test_vnodes_stay_on_their_worker_the_largest_first() -> None:
    """Unit 1 goes; unit 2 of its worker has room for two of its four vnodes, unit 3 takes two."""
    mapping = Mapping((0, 0, 0, 0, 1, 1, 1, 1))
    sizes = [1, 1, 1, 1, 7, 3, 9, 5]
    worker_of = {0: 0, 1: 1, 2: 1, 3: 0}.__getitem__
    after = rebalance(mapping, added=[2, 3], removed=[1], worker_of=worker_of, sizes=sizes)
    across = [
        move.vnode
        for move in moves(mapping, after)
        if worker_of(move.source) != worker_of(move.target)
    ]
    assert after.counts() == {0: 3, 2: 3, 3: 2}
    assert across == [5]


def test_a_long_unit_saves_one_vnode_only() -> None:
    """Worker 1 sheds two vnodes, worker 2 one; two of the units 0, 2 and 4 become long.

    Unit 2 saves the larger vnode of worker 1. The other is larger than that of worker 2, but
    nothing on worker 1 could take it as well: so unit 4 is the other long one.
    """
    mapping = Mapping((0, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4))
    sizes = [999, 100, 999, 90, 999, 999, 999, 999, 999, 80, 999, 999, 999, 999]
    worker_of = (0, 1, 1, 2, 2).__getitem__
    after = rebalance(mapping, added=[], removed=[], worker_of=worker_of, sizes=sizes)
    assert moves(mapping, after) == [Move(1, 1, 2), Move(3, 1, 0), Move(9, 3, 4)]


def test_a_worker_restarted_with_other_units_moves_no_bytes() -> None:
    """All of its units are replaced by new ones of its own."""
    mapping = Mapping.even(256, range(8))
    after = rebalance(
        mapping, added=range(8, 12), removed=range(4), worker_of=lambda unit: unit // 4 % 2
    )
    assert {move.target // 4 for move in moves(mapping, after)} == {2}
    assert {move.source // 4 for move in moves(mapping, after)} == {0}


# Shapes of clusters -----------------------------------------------------------------------------


def expect(before: Mapping, added: list[int], removed: list[int]) -> Mapping:
    """The checked result of a change."""
    after = rebalance(before, added=added, removed=removed)
    check_even_and_least(before, after, added, removed)
    return after


@pytest.mark.parametrize("count", UNIT_COUNTS[1:])
def test_scale_in_by_one_takes_nothing_from_the_others(count: int) -> None:
    """Whichever unit goes."""
    before = Mapping.even(256, range(count))
    for unit in range(count):
        after = expect(before, [], [unit])
        assert all(
            now == owner
            for owner, now in zip(before.units, after.units, strict=True)
            if owner != unit
        )


@pytest.mark.parametrize("count", UNIT_COUNTS[1:])
def test_scale_in_to_one(count: int) -> None:
    """The last one owns everything."""
    after = expect(Mapping.even(256, range(count)), [], list(range(1, count)))
    assert after == Mapping.even(256, [0])


@pytest.mark.parametrize("count", UNIT_COUNTS[:-1])
@pytest.mark.parametrize("wanted", [None, 256])
def test_scale_out_gives_to_the_new_ones_only(count: int, wanted: int | None) -> None:
    """By one, and to as many units as there are vnodes."""
    before = Mapping.even(256, range(count))
    added = list(range(count, wanted or count + 1))
    after = expect(before, added, [])
    assert {move.target for move in moves(before, after)} == set(added)


@pytest.mark.parametrize("count", UNIT_COUNTS)
def test_a_migration_leaves_all_others_alone(count: int) -> None:
    """Every single unit replaced by a new one: the new one owns exactly what the old one did."""
    before = Mapping.even(256, range(count))
    for unit in range(count):
        after = expect(before, [count], [unit])
        assert after.units == tuple(count if owner == unit else owner for owner in before.units)


@pytest.mark.parametrize("count", UNIT_COUNTS)
def test_migrations_of_several(count: int) -> None:
    """The first k units replaced by k new ones, for every k."""
    before = Mapping.even(256, range(count))
    for several in range(1, count + 1):
        new = list(range(count, count + several))
        after = expect(before, new, list(range(several)))
        assert {move.target for move in moves(before, after)} == set(new)


@pytest.mark.parametrize("count", UNIT_COUNTS[1:])
def test_one_for_two_and_two_for_one(count: int) -> None:
    """Mixed changes: nobody who stays takes and sheds."""
    before = Mapping.even(256, range(count))
    if count < 256:
        expect(before, [count, count + 1], [0])
    after = expect(before, [count], [0, 1])
    assert set(before.vnodes(2)) <= set(after.vnodes(2))


def test_one_for_two_of_255() -> None:
    """Nearly every unit owns a single vnode: only three move."""
    before = Mapping.even(256, range(255))
    after = expect(before, [255], [0, 1])
    assert len(moves(before, after)) == 3


# Moves and refusals -----------------------------------------------------------------------------


@given(changes())
def test_moves_lead_from_one_mapping_to_the_other(drawn: tuple) -> None:
    """Each is of a vnode that changes its owner; together they make the new mapping."""
    mapping, added, removed = drawn
    after = rebalance(mapping, added=added, removed=removed)
    owners = list(mapping.units)
    for move in moves(mapping, after):
        assert owners[move.vnode] == move.source != move.target
        owners[move.vnode] = move.target
    assert tuple(owners) == after.units


@pytest.mark.parametrize(
    ("added", "removed", "message"),
    [
        ([], [7], "unit 7 owns no vnode"),
        ([7], [7], "unit 7 owns no vnode"),
        ([1], [], "unit 1 owns vnodes already"),
        ([1, 3], [0], "unit 1 owns vnodes already"),
        ([], [0, 1], "4 vnodes cannot be shared by 0"),
        ([2, 3, 4], [], "4 vnodes cannot be shared by 5"),
        ([-1], [], "-1 is no parallel unit's id"),
    ],
)
def test_changes_that_cannot_be(added: list[int], removed: list[int], message: str) -> None:
    """Units that are not there, or are; none left, or too many. Each says what to do."""
    mapping = Mapping((0, 0, 1, 1))
    with pytest.raises(UsageError, match=message) as caught:
        rebalance(mapping, added=added, removed=removed)
    assert caught.value.hint


@pytest.mark.parametrize("change", [([], [7]), ([1], []), ([], [0, 1]), ([2, 3, 4], [])])
def test_the_bound_refuses_the_same_changes(change: tuple[list[int], list[int]]) -> None:
    """There is no fewest of what cannot be."""
    with pytest.raises(UsageError):
        moves_least(Mapping((0, 0, 1, 1)), *change)


def test_sizes_and_mappings_must_fit() -> None:
    """One size per vnode; mappings of one fragment."""
    mapping = Mapping.even(4, [0])
    with pytest.raises(UsageError, match="3 sizes do not fit 4 vnodes"):
        rebalance(mapping, added=[1], removed=[], sizes=[1, 2, 3])
    with pytest.raises(UsageError, match="do not compare"):
        moves(mapping, Mapping.even(5, [0]))
