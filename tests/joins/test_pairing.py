"""Which rows belong together, and which change of a row is which, as arithmetic."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.steps.changing_join.pairing import added_up, numbered, pairs, same

NUMBERS = st.lists(st.integers(-1, 4), max_size=12).map(lambda each: np.array(each, np.int64))


@settings(derandomize=True, max_examples=50)
@given(NUMBERS, NUMBERS)
def test_pairs_are_all_equal_ones(left, right):
    """By the left one, then by the right one."""
    wanted = [
        (i, j)
        for (i, one), (j, other) in itertools.product(enumerate(left), enumerate(right))
        if one == other
    ]
    assert list(zip(*(each.tolist() for each in pairs(left, right)), strict=True)) == wanted


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3), st.integers(-2, 2)), max_size=15))
def test_pairs_are_added_up(rows):
    """What adds up to nothing is left out."""
    total = Counter()
    for left, right, times in rows:
        total[left, right] += times
    columns = [np.array(each, np.int64) for each in zip(*rows, strict=True)] if rows else None
    found = added_up(*(columns or [np.zeros(0, np.int64)] * 3))
    made = list(zip(*(each.tolist() for each in found), strict=True))
    assert made == sorted((*key, times) for key, times in total.items() if times)


@settings(derandomize=True, max_examples=50)
@given(NUMBERS, NUMBERS)
def test_equal_ones_are_the_same_in_turn(one, other):
    """The first with the first, the second with the second; what is below 0 with none."""
    places = defaultdict(list)
    for at, number in enumerate(other.tolist()):
        places[number].append(at)
    wanted = set()
    for at, number in enumerate(one.tolist()):
        if number >= 0 and places[number]:
            wanted.add((at, places[number].pop(0)))
    assert set(zip(*(each.tolist() for each in same(one, other)), strict=True)) == wanted


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=15))
def test_rows_have_one_number_where_all_columns_are_equal(rows):
    """Whatever the columns hold."""
    codes = numbered([np.array(each, np.int64) for each in zip(*rows, strict=True)]).tolist()
    for (row, code), (other, its) in itertools.product(zip(rows, codes, strict=True), repeat=2):
        assert (row == other) == (code == its)
