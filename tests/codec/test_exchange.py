"""Values come out of the wire as they went in, of whatever types."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.codec.values.exchange import packed, unpacked

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(timezones=st.just(dt.UTC)),
)
_keys = st.one_of(st.text(), st.integers(), st.dates(), st.tuples(st.integers(), st.text()))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(_keys, inner, max_size=4),
        st.sets(_keys, max_size=4),
    ),
    max_leaves=10,
)


def same(one, other):
    """Whether they are equal and of the same types throughout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


@settings(derandomize=True, max_examples=60, database=None)
@given(_values)
def test_they_come_out_as_they_went_in(value):
    """With their types, and maps in their order."""
    assert same(unpacked(packed(value)), value)


def test_at_the_edges():
    """NaN, signed zero, the largest integers of msgpack and the next ones, numbers of numpy."""
    assert math.isnan(unpacked(packed(math.nan)))
    assert math.copysign(1, unpacked(packed(-0.0))) == -1
    for number in (2**64 - 1, 2**64, -(2**63), -(2**63) - 1):
        assert unpacked(packed(number)) == number
    assert same(unpacked(packed(np.int64(5))), 5)
    assert same(unpacked(packed(bytearray(b"x"))), b"x")
    naive = dt.datetime.fromisoformat("2026-01-02T03:04:05")
    assert same(unpacked(packed(naive)), naive)
