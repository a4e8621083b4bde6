"""Grouping: equal keys adjacent, arrival order kept, for keys of every type and number."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll import agg
from atoll.aggregates.kernels.segments import taken
from atoll.engine.exchange import grouping
from atoll.engine.exchange.grouping import (
    estimate_distinct,
    group,
    worth_combining,
)
from atoll.errors import UsageError

INT64 = st.integers(-(2**63), 2**63 - 1)
PAIR = pa.struct({"a": pa.int64(), "b": pa.string()})

KINDS = {
    "int": (st.sampled_from([0, 1, 2, -1]), pa.int64()),
    "wide int": (st.sampled_from([-(2**63), 2**63 - 1, 0, -1]) | INT64, pa.int64()),
    "int8": (st.integers(-2, 2), pa.int8()),
    "float": (st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, 1.5]), pa.float64()),
    "float32": (st.sampled_from([0.0, -0.0, math.nan, 0.5]), pa.float32()),
    "bool": (st.booleans(), pa.bool_()),
    "str": (st.sampled_from(["", "a", "\x00", "漢"]), pa.string()),
    "large str": (st.sampled_from(["", "a"]), pa.large_string()),
    "bytes": (st.sampled_from([b"", b"a"]), pa.binary()),
    "date": (st.dates(), pa.date32()),
    "timestamp": (st.datetimes(), pa.timestamp("us", "UTC")),
    "decimal": (st.sampled_from([Decimal("1.50"), Decimal(2)]), pa.decimal128(10, 2)),
    "dictionary": (st.sampled_from(["x", "y"]), pa.dictionary(pa.int32(), pa.string())),
    "tuple": (
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 1), "b": st.sampled_from("pq")}),
        PAIR,
    ),
}


def folded(keys, states, aggregator):
    """Rows as a packing task folds them: by key, where that leaves markedly fewer."""
    rows = len(states[0])
    if not worth_combining(keys, rows):
        return keys, states
    by_key = group(keys, rows)
    reduced = aggregator.reduce([taken(each, by_key.order) for each in states], by_key.starts)
    return [taken(each, by_key.first_rows) for each in keys], reduced


def comparable(value):
    """The key as Python compares it: NaN equal to NaN."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return tuple(value.items()) if isinstance(value, dict) else value


@st.composite
def key_columns(draw):
    """Some columns of some rows, nulls among them, sometimes sliced."""
    names = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    rows = draw(st.integers(0, 25))
    columns = []
    for name in names:
        strategy, kind = KINDS[name]
        nulls = draw(st.booleans())
        values = st.none() | strategy if nulls else strategy
        drawn = draw(st.lists(values, min_size=rows + 1, max_size=rows + 1))
        columns.append(pa.array(drawn, kind).slice(1))
    return columns


@settings(max_examples=400, deadline=None)
@given(columns=key_columns())
def test_groups_are_those_of_a_dict(columns):
    """Each group holds exactly the rows of one key, in arrival order."""
    expected: dict = {}
    for row, key in enumerate(zip(*[column.to_pylist() for column in columns], strict=True)):
        expected.setdefault(tuple(map(comparable, key)), []).append(row)
    found = group(columns)
    bounds = [*found.starts.tolist(), len(found.order)]
    order = found.order.tolist()
    groups = [order[a:b] for a, b in pairwise(bounds)]
    assert sorted(groups) == sorted(expected.values())
    assert len(found) == len(expected)
    assert sorted(found.first_rows.tolist()) == sorted(rows[0] for rows in expected.values())


def test_no_key_is_one_group():
    """All rows in arrival order; no rows make no group."""
    found = group([], 3)
    assert (found.order.tolist(), found.starts.tolist()) == ([0, 1, 2], [0])
    assert len(group([], 0)) == 0
    with pytest.raises(UsageError):
        group([])


def test_many_columns_of_many_values():
    """Spans whose product goes beyond 64 bits are made dense on the way."""
    rng = np.random.default_rng(1)
    rows = 2_000
    columns = [pa.array(rng.integers(-(2**62), 2**62, 7)[rng.integers(0, 7, rows)]) for _ in "1234"]
    found = group(columns)
    assert len(found) == len(set(zip(*[column.to_pylist() for column in columns], strict=True)))


@pytest.mark.parametrize("span", [10, 2**40, 2**62])
def test_order_within_a_group_is_arrival(span):
    """At sizes where an unstable sort would show, on the narrow way and the wide one."""
    rng = np.random.default_rng(2)
    distinct = np.append(rng.integers(-span, span, 50), [-span, span - 1])
    keys = distinct[rng.integers(0, len(distinct), 50_000)]
    found = group([pa.array(keys)])
    ordered = keys[found.order]
    assert (ordered[found.starts[1:]] != ordered[found.starts[1:] - 1]).all()
    inside = np.ones(len(keys), bool)
    inside[found.starts] = False
    steps = np.diff(found.order)[inside[1:]]
    assert (steps > 0).all()
    assert (np.diff(ordered)[inside[1:]] == 0).all()


class TestPartials:
    """Partial aggregation before the exchange."""

    def test_states_of_equal_keys_are_reduced(self):
        """The sum per key is the same, the rows are as many as keys."""
        keys = pa.array([1, 2, None, 1, None] * 2_000)
        names = pa.array(["a", "b", "c", "a", "c"] * 2_000)
        states = [pa.array(range(10_000))]
        found, reduced = folded([keys, names], states, agg.sum("v"))
        totals = dict(zip(found[0].to_pylist(), reduced[0].to_pylist(), strict=True))
        assert found[1].to_pylist() == [
            {1: "a", 2: "b", None: "c"}[key] for key in found[0].to_pylist()
        ]
        expected: dict = {}
        for key, value in zip(keys.to_pylist(), range(10_000), strict=True):
            expected[key] = expected.get(key, 0) + value
        assert totals == expected

    def test_distinct_keys_are_left_alone(self):
        """Where grouping would gain nothing, the same columns come back."""
        keys = pa.array(np.random.default_rng(3).permutation(50_000))
        found, states = folded([keys], [keys], agg.sum("v"))
        assert found[0] is keys
        assert states[0] is keys

    def test_without_keys_everything_is_one_state(self):
        """A global aggregate sends one row."""
        found, states = folded([], [pa.array(range(100_000))], agg.sum("v"))
        assert found == []
        assert states[0].to_pylist() == [sum(range(100_000))]
        assert worth_combining([], 1) is False

    @pytest.mark.parametrize("keys", [100, 10_000, 100_000, 1_000_000, 10**12])
    def test_the_estimate_is_near(self, keys):
        """From a sample of some thousand rows."""
        rows = 200_000
        column = pa.array(np.random.default_rng(4).integers(0, keys, rows))
        actual = len(np.unique(column.to_numpy()))
        estimate = estimate_distinct([column], rows)
        assert estimate == pytest.approx(actual, rel=0.35)
        assert estimate <= rows

    def test_few_rows_are_always_combined(self):
        """A sample would cost as much as grouping them."""
        assert worth_combining([pa.array(range(10))], 10)
        assert not worth_combining([pa.array([1])], 1)
        rows = grouping.SAMPLE_ROWS * 4
        assert not worth_combining([pa.array(range(rows))], rows)
