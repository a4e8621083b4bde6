"""Sums never wrap: near the limits they are exact or an error that names the aggregate."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from atoll import agg
from atoll.aggregates.kernels.sums import add_columns, sum_groups
from atoll.codec.fit_column import fit_column
from atoll.errors import StateError
from atoll.schema import Scalar

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
DECIMAL = pa.decimal128(38, 18)

wide_ints = st.one_of(
    st.integers(INT_MIN, INT_MAX),
    st.sampled_from([INT_MIN, INT_MAX, INT_MAX - 1, INT_MIN + 1, -1, 0, 1, 2**32, -(2**32)]),
)


def units(value: int) -> Decimal:
    """The decimal of 18 places with that unscaled value, exact."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(value).scaleb(-18)


DECIMAL_MAX = units(10**38 - 1)


@settings(max_examples=300, deadline=None)
@given(values=st.lists(wide_ints, min_size=1, max_size=8), cut=st.integers(0, 8))
def test_ints_near_the_limits(values, cut):
    """Every group is summed exactly, or refused where 64 bits cannot hold its sum."""
    starts = np.array(sorted({0, min(cut, len(values) - 1)}), np.int64)
    groups = [values[a:b] for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]
    expected = [sum(group) for group in groups]
    column = pa.array(values, pa.int64())
    if all(INT_MIN <= total <= INT_MAX for total in expected):
        assert sum_groups(column, starts, "sum(v)").to_pylist() == expected
    else:
        with pytest.raises(StateError, match=r"agg\.sum\(v\) went beyond the range of 64-bit"):
            sum_groups(column, starts, "sum(v)")


@settings(max_examples=300, deadline=None)
@given(old=st.none() | wide_ints, new=st.none() | wide_ints)
def test_merging_ints_near_the_limits(old, new):
    """So is the sum of a stored total and a new one."""
    pair = [pa.array([value], pa.int64()) for value in (old, new)]
    total = None if old is None and new is None else (old or 0) + (new or 0)
    if total is None or INT_MIN <= total <= INT_MAX:
        assert add_columns(*pair, "sum(v)").to_pylist() == [total]
    else:
        with pytest.raises(StateError, match="64-bit"):
            add_columns(*pair, "sum(v)")


unscaled = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.sampled_from([0, 1, -1, 2**64, -(2**64), 2**32, -(2**32), 10**38 - 1, -(10**38) + 1]),
)


@settings(max_examples=300, deadline=None)
@given(values=st.lists(st.none() | unscaled, min_size=1, max_size=6), offset=st.integers(0, 2))
def test_decimals_near_the_limits(values, offset):
    """Decimals are summed exactly up to 38 digits; slices and nulls included."""
    padded = [7] * offset + values
    whole = pa.array([None if v is None else units(v) for v in padded], DECIMAL)
    column = whole.slice(offset)
    present = [v for v in values if v is not None]
    total = sum(present) if present else None
    starts = np.array([0])
    if total is None or abs(total) < 10**38:
        expected = [None if total is None else units(total)]
        assert sum_groups(column, starts, "sum(v)").to_pylist() == expected
    else:
        with pytest.raises(StateError, match="38 digits"):
            sum_groups(column, starts, "sum(v)")


def test_merging_decimals():
    """Row by row, a null counting as nothing."""
    old = pa.array([DECIMAL_MAX, Decimal(1), None, None], DECIMAL)
    new = pa.array([Decimal(0), Decimal("-2.5"), Decimal(3), None], DECIMAL)
    merged = add_columns(old, new, "sum(v)").to_pylist()
    assert merged == [DECIMAL_MAX, Decimal("-1.5"), Decimal(3), None]
    with pytest.raises(StateError, match="decimal"):
        add_columns(old.slice(0, 1), pa.array([Decimal(1)], DECIMAL), "sum(v)")


def test_an_overflow_names_the_aggregate_and_the_remedy():
    """The error says which aggregate, what happened and what to declare instead."""
    aggregator = agg.sum("price * quantity")
    with pytest.raises(StateError) as caught:
        aggregator.reduce([pa.array([INT_MAX, 1])], np.array([0]))
    assert caught.value.context["aggregate"] == "sum(price * quantity)"
    assert "cast the expression to decimal(38, 18) or double" in str(caught.value)


def test_floats_add_up_in_arrival_order():
    """As a loop would add them; infinities meet as IEEE says, without a warning."""
    values = [1e16, 1.0, -1e16, 1.0]
    assert sum_groups(pa.array(values), np.array([0]), "s").to_pylist() == [sum(values)]
    infinite = sum_groups(pa.array([np.inf, -np.inf]), np.array([0]), "s")
    assert np.isnan(infinite[0].as_py())


def test_long_columns_take_the_exact_way_only_when_they_must():
    """A million values near the limit in small groups are right, and quick."""
    values = np.full(1_000_000, INT_MAX // 2)
    starts = np.arange(0, 1_000_000, 2)
    sums = sum_groups(pa.array(values), starts, "s").to_numpy()
    assert (sums == INT_MAX // 2 * 2).all()


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 17))
@example(10**32 - 100, 2)
def test_a_decimal_of_another_scale_is_kept_exactly_or_refused(digits, scale):
    """Never another number: Arrow's own cast loses the high digits of some."""
    with localcontext() as context:
        context.prec = 60
        value = Decimal(digits).scaleb(-scale)
    column = pa.array([value], pa.decimal128(38, scale))
    node = Scalar("decimal")
    aggregator = agg.sum("v").bind(node, [column.type], None)
    if abs(digits) * 10 ** (18 - scale) < 10**38:
        assert aggregator.lift([column], node)[0].to_pylist() == [value]
        assert fit_column(column, node, place="here").to_pylist() == [value]
    else:
        with pytest.raises(StateError, match="cannot keep exactly"):
            aggregator.lift([column], node)
        with pytest.raises(StateError, match="cannot keep exactly"):
            fit_column(column, node, place="here")
