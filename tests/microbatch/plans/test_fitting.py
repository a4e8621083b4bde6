"""How many bytes a microbatch takes: never more than the limit, never nothing, nobody starves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atoll.microbatch.plans.fitting import fit, total_bytes


def _ranges(*lengths: int) -> dict[str, list[tuple[int, int]]]:
    return {"d": [(10, 10 + length) for length in lengths]}


def _records(*sizes: list[int]) -> dict[str, list[list[tuple[int, int]]]]:
    """One run per record."""
    return {"d": [[(10 + at, size) for at, size in enumerate(each, 1)] for each in sizes]}


def test_all_is_taken_where_all_fits():
    """The limit may be met exactly."""
    assert fit(_ranges(3, 2), _records([5, 5, 5], [1, 4]), 20, 0) == _ranges(3, 2)


def test_who_needs_less_leaves_the_rest_to_the_others():
    """Of 100 bytes one depot partition needs 10, so the other gets 90."""
    sizes = _records([10] * 50, [10])
    assert fit(_ranges(50, 1), sizes, 100, 0) == {"d": [(10, 19), (10, 11)]}


def test_a_record_fatter_than_the_limit_is_taken_alone_and_each_partition_has_its_turn():
    """Nothing is left lying because it is fat, or because another depot partition has more."""
    sizes = _records([500, 500], [500, 1])
    assert fit(_ranges(2, 2), sizes, 100, 0) == {"d": [(10, 11), (10, 10)]}
    assert fit(_ranges(2, 2), sizes, 100, 1) == {"d": [(10, 10), (10, 11)]}


def test_a_run_of_several_records_is_cut_in_proportion():
    """Of a block only the sum is known: half of its bytes are half of its records."""
    sizes = {"d": [[(110, 1000)]]}
    assert fit({"d": [(10, 110)]}, sizes, 500, 0) == {"d": [(10, 60)]}


def test_what_has_no_sizes_is_left_as_it_is():
    """Ticks are in the ranges, too."""
    ranges = {**_ranges(2), "tick": [(3, 4)]}
    assert fit(ranges, _records([9, 9]), 10, 0) == {"d": [(10, 11)], "tick": [(3, 4)]}


_SIZES = st.lists(st.lists(st.integers(1, 40), max_size=8), min_size=1, max_size=5)


@given(_SIZES, st.integers(1, 120), st.integers(0, 9))
def test_a_limit_of_any_size_holds(sizes: list[list[int]], most: int, turn: int):
    """Beginnings of the ranges; within the limit, but for a single record; as much as may be."""
    ranges, known = _ranges(*map(len, sizes)), _records(*sizes)
    got = fit(ranges, known, most, turn)
    taken = [end - start for start, end in got["d"]]
    assert all(
        start == 10 and n <= len(each)
        for (start, _), n, each in zip(got["d"], taken, sizes, strict=True)
    )
    size = sum(sum(each[:n]) for n, each in zip(taken, sizes, strict=True))
    assert size <= most or sum(taken) == 1
    assert sum(taken) >= min(1, sum(map(len, sizes)))
    following = [each[n] for n, each in zip(taken, sizes, strict=True) if n < len(each)]
    assert all(size + next_size > most for next_size in following), "another one would have fitted"
    assert total_bytes(known) == sum(map(sum, sizes))
