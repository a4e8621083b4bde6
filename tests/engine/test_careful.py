"""Halving: which rows are found, in which order, and how often it asks."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from atoll.engine.exchange.careful import FIRST, Refusing, data_errors, sift, tried
from atoll.errors import DataError, UserCodeError
from atoll.topology.rows import ORIGIN


class _Step:
    title = "aggregate"
    place = "here.py:1"


class _Rejects:
    def __init__(self):
        self.found = []

    def add(self, step, row, origin, error):
        self.found.append((row.asdict(), origin, error))


def _taking(bad):
    """What takes rows together unless one is bad; it notes what it was asked."""
    asked, taken = [], []

    def take(first, stop):
        asked.append((first, stop))
        if bad.intersection(range(first, stop)):
            return DataError("bad")
        taken.extend(range(first, stop))
        return None

    return take, asked, taken


@pytest.mark.parametrize("seed", range(20))
def test_finds_all_of_them_and_takes_the_others_in_order(seed):
    """However the bad rows lie: each found once, every other row taken once, both in order."""
    rand = random.Random(seed)
    rows = rand.choice([0, 1, 2, 7, 100, 1000])
    bad = set(rand.sample(range(rows), rand.randrange(rows + 1))) if rows else set()
    take, _, taken = _taking(bad)
    assert [position for position, _ in sift(0, rows, take)] == sorted(bad)
    assert taken == sorted(set(range(rows)) - bad)


def test_a_few_bad_rows_cost_a_few_tries():
    """1,000 of 100,000, wherever they are: fewer tries than looking at a fifth of the rows."""
    bad = set(random.Random(1).sample(range(100_000), 1_000))
    take, asked, _ = _taking(bad)
    assert len(list(sift(0, 100_000, take))) == 1_000
    assert len(asked) < 20_000
    take, asked, _ = _taking(set())
    assert list(sift(0, 100_000, take)) == []
    assert asked == [(0, 100_000)]


def test_rows_that_fit_one_after_the_other():
    """What was taken before counts: of a total that would not fit the later rows are found."""
    numbers = [5, 3, 4, 1, 2]
    total = 0

    def take(first, stop):
        nonlocal total
        more = total + sum(numbers[first:stop])
        if more > 10:
            return DataError("too much")
        total = more
        return None

    assert [position for position, _ in sift(0, len(numbers), take)] == [2, 4]
    assert total == 9


def test_only_errors_that_come_again_are_the_rows_fault():
    """A function of the user's, or a damaged file, ends the attempt as ever."""

    def fails(error):
        raise error

    data = DataError("bad")
    assert tried(lambda: fails(data)) is data
    assert tried(lambda: None) is None
    with pytest.raises(UserCodeError):
        tried(lambda: fails(UserCodeError("called out")))
    with pytest.raises(DataError, match="does not fit"), data_errors():
        pa.array([300]).cast(pa.int8())


def test_a_refused_row_is_named():
    """With its record and itself, without columns that nobody else knows."""
    rows = pa.table({"k": ["a", None], "__e0": [1, 2], ORIGIN: pa.array([7, 8])})
    rejects = _Rejects()
    error = DataError("null", row=3)
    Refusing(_Step(), rejects).refuse(rows, 1, error)
    assert rejects.found == [({"k": None}, 8, error)]
    assert error.context == {
        "operator": "aggregate", "declared": "here.py:1", "row": "Row(k=None)", "origin": 8,
    }  # fmt: skip
    with pytest.raises(DataError) as caught:
        Refusing(_Step(), FIRST).refuse(rows, 0, DataError("first"))
    assert caught.value.context["origin"] == 7


def test_a_row_that_python_cannot_hold_is_named_all_the_same():
    """A date beyond the year 9999 has no Python object."""
    days = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    rejects = _Rejects()
    Refusing(_Step(), rejects).refuse(pa.table({"d": days}), 0, DataError("far"))
    ((row, origin, _),) = rejects.found
    assert list(row) == ["d"]
    assert origin is None
