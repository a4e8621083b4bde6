"""Where Arrow holds what Python cannot, at any depth, and in slices."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from atoll.representable import beyond_datetime, refuse_misfits, too_large

EPOCH = dt.date(1970, 1, 1)
FIRST_DAY = (dt.date.min - EPOCH).days
DAYS_END = (dt.date.max - EPOCH).days + 1
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Of numbers of the unit."""
    numbers = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array(values, numbers).cast(kind)


@pytest.mark.parametrize(
    ("kind", "a_day"),
    [
        (pa.date32(), 1),
        (pa.date64(), 86_400_000),
        *(
            (pa.timestamp(unit, zone), a_day)
            for unit, a_day in PER_DAY.items()
            for zone in (None, "UTC")
        ),
    ],
)
def test_the_first_and_the_last_time(kind, a_day):
    """Exactly the times that are none in Python are beyond."""
    edges = [FIRST_DAY * a_day - 1, FIRST_DAY * a_day, None, DAYS_END * a_day - a_day]
    edges += [DAYS_END * a_day - (1 if pa.types.is_timestamp(kind) else a_day), DAYS_END * a_day]
    column = _column(edges, kind)
    assert beyond_datetime(column).tolist() == [True, False, False, False, False, True]
    assert beyond_datetime(column.slice(1, 4)) is None
    for value in column.slice(1, 4):
        value.as_py()
    for value in (column[0], column[-1]):
        with pytest.raises((OverflowError, ValueError)):
            value.as_py()


def test_nanoseconds_are_never_beyond():
    """They end in the year 2262."""
    assert beyond_datetime(pa.array([2**63 - 1, -(2**63)], pa.timestamp("ns"))) is None


WILD = 2**62
TIMES = pa.struct([("a", pa.list_(pa.timestamp("us")))])


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([[0], None, [], [0, WILD]], pa.list_(pa.timestamp("us"))),
        ([[(0, 0)], None, [], [(WILD, 0)]], pa.map_(pa.timestamp("us"), pa.int64())),
        ([[(0, 0)], None, [], [(0, WILD)]], pa.map_(pa.int64(), pa.timestamp("us"))),
        ([{"a": 0}, None, {"a": None}, {"a": WILD}], pa.struct([("a", pa.timestamp("us"))])),
        ([[{"a": [0]}], None, [None], [{"a": [0, WILD]}]], pa.list_(TIMES)),
    ],
)
def test_times_within(rows, kind):
    """Only the row that holds one is told, in slices as well."""
    column = pa.array(rows, kind)
    assert beyond_datetime(column).tolist() == [False, False, False, True]
    assert beyond_datetime(column.slice(2, 2)).tolist() == [False, True]
    assert beyond_datetime(column.slice(0, 3)) is None


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0, float("inf"), 1e39], pa.float32()),
        ([[float("inf")], [float("nan"), -1e39]], pa.list_(pa.float32())),
        ([{"a": 1e39}], pa.struct([("a", pa.float32())])),
        ([{1e39: 1.0}.items()], pa.map_(pa.float32(), pa.float32())),
    ],
)
def test_numbers_that_became_infinite(values, kind):
    """Not those that were; the number is named."""
    values = [list(each) if isinstance(each, type({}.items())) else each for each in values]
    with pytest.raises(pa.ArrowInvalid, match=r"1e\+39 is too large"):
        refuse_misfits(pa.array(values, kind), lambda other: pa.array(values, other))


def test_infinities_may_be():
    """Whoever gives one has one."""
    values = [float("inf"), float("-inf"), float("nan"), None, 3.0e38]
    made = pa.array(values, pa.float32())
    refuse_misfits(made, lambda other: pa.array(values, other))
    assert too_large(made, pa.array(values, pa.float64())) is None
