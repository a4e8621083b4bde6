"""Scalar keys: order, round trip, canonical forms, prefixes, and what is refused."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from decimal import Decimal

import pytest
from codec_strategies import SIMPLE_KINDS, VALUES, scalars, values_of
from hypothesis import given
from hypothesis import strategies as st

from atoll.codec.keys.elements import (
    EMPTY_KEY,
    decode_key,
    encode_element,
    encode_key,
    prefix_range,
    successor,
)
from atoll.errors import StateError
from atoll.schema import Scalar

WIDE_INTS = st.integers() | st.integers(-(2**200), 2**200)
WIDE_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)


def order(left: object, right: object) -> int:
    """-1, 0 or 1 as Python orders the two."""
    return (left > right) - (left < right)


@pytest.mark.parametrize("kind", SIMPLE_KINDS)
def test_order_of_bytes_is_pythons_order(kind: str) -> None:
    """For two values of one kind, comparing the bytes tells what comparing the values tells."""
    values = {"int": WIDE_INTS, "decimal": WIDE_DECIMALS}.get(kind, VALUES[kind])
    scalar = Scalar(kind)

    @given(values, values)
    def check(left: object, right: object) -> None:
        encoded = encode_element(left, scalar), encode_element(right, scalar)
        assert order(left, right) == order(*encoded)

    check()


@given(st.data())
def test_tuples_sort_member_by_member(data: st.DataObject) -> None:
    """Keys of several elements, and tuples within keys, sort as Python's tuples do."""
    kinds = data.draw(st.lists(scalars(optional=False), min_size=1, max_size=3))
    rows = st.tuples(*map(values_of, kinds))
    left, right = data.draw(rows), data.draw(rows)
    assert order(left, right) == order(encode_key(left, kinds), encode_key(right, kinds))
    whole = Scalar("tuple", items=tuple(kinds))
    assert order(left, right) == order(encode_element(left, whole), encode_element(right, whole))


@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    """Decoding an encoded key gives values equal to the ones encoded, without the schema."""
    kinds = data.draw(st.lists(scalars(), max_size=4))
    row = tuple(data.draw(values_of(kind)) for kind in kinds)
    key = encode_key(row, kinds)
    assert row == decode_key(key)
    assert row == decode_key(memoryview(key))


@given(WIDE_INTS, WIDE_DECIMALS)
def test_round_trip_of_the_unbounded_kinds(number: int, decimal: Decimal) -> None:
    """Ints and Decimals of any size are keys."""
    kinds = [Scalar("int"), Scalar("decimal")]
    assert (number, decimal) == decode_key(encode_key((number, decimal), kinds))


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("float", 0.0, -0.0),
        ("float", math.nan, -math.nan),
        ("float", 1, 1.0),
        ("decimal", Decimal("1.0"), Decimal("1.00")),
        ("decimal", Decimal("1E+3"), Decimal(1000)),
        ("decimal", Decimal("-0.00"), Decimal(0)),
        (
            "datetime",
            dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC),
            dt.datetime(2026, 1, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
    ],
)
def test_equal_values_have_one_encoding(kind: str, left: object, right: object) -> None:
    """Whatever form a value comes in, its bytes (and so its vnode) are the same."""
    assert encode_element(left, Scalar(kind)) == encode_element(right, Scalar(kind))


def test_nan_sorts_after_infinity_and_none_before_all() -> None:
    """The ends of the order are fixed."""
    scalar = Scalar("float", optional=True)
    values = [None, -math.inf, -1.0, 0.0, 1.0, math.inf, math.nan]
    encoded = [encode_element(value, scalar) for value in values]
    assert encoded == sorted(encoded)


def test_decimals_come_back_plain() -> None:
    """No trailing zeros, and no exponent on integers."""
    kinds = [Scalar("decimal")]
    plain = [str(decode_key(encode_key((Decimal(text),), kinds))[0]) for text in ("1.50", "1E+3")]
    assert plain == ["1.5", "1000"]


def test_the_empty_key_is_one_zero_byte() -> None:
    """A store takes no key without bytes."""
    assert encode_key((), ()) == EMPTY_KEY == b"\x00"
    assert decode_key(EMPTY_KEY) == ()


@given(st.data())
def test_prefix_ranges_hold_exactly_the_keys_with_that_prefix(data: st.DataObject) -> None:
    """A key lies in the range of a prefix when, and only when, its first elements equal it."""
    kinds = data.draw(st.lists(scalars(), min_size=2, max_size=3))
    row = [data.draw(values_of(kind)) for kind in kinds]
    other = [data.draw(values_of(kind)) for kind in kinds]
    count = data.draw(st.integers(1, len(kinds)))
    low, high = prefix_range(encode_key(row[:count], kinds[:count]))
    assert low <= encode_key(row, kinds) < high
    inside = low <= encode_key(other, kinds) < high
    assert inside == (row[:count] == other[:count])
    everything = prefix_range(b"")
    assert everything[0] <= encode_key(other, kinds) < everything[1]


def test_a_zero_byte_does_not_leak_into_the_range_of_a_shorter_text() -> None:
    """The escape of a zero byte stays outside the range of the text before it."""
    kinds = [Scalar("str")]
    low, high = prefix_range(encode_key(("a",), kinds))
    assert not low <= encode_key(("a\0b",), kinds) < high
    assert successor(low) == high


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", True),
        ("int", 1.0),
        ("int", "1"),
        ("int", None),
        ("float", True),
        ("float", 10**400),
        ("bool", 1),
        ("str", b"x"),
        ("str", "\ud800"),
        ("bytes", "x"),
        ("date", dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        ("datetime", dt.date(2026, 1, 1)),
        ("datetime", dt.datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
        ("datetime", dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        ("decimal", 1),
        ("decimal", Decimal("NaN")),
        ("decimal", Decimal("Infinity")),
        ("decimal", Decimal("1E+99999999999")),
    ],
)
def test_misfits_are_refused_by_name(kind: str, value: object) -> None:
    """The error names the kind and the value's type."""
    with pytest.raises(StateError) as caught:
        encode_element(value, Scalar(kind))
    assert str(Scalar(kind)) in caught.value.message
    assert type(value).__name__ in caught.value.message
    assert caught.value.context["kind"] == str(Scalar(kind))


def test_tuples_are_checked_member_by_member() -> None:
    """Neither their number nor a member's kind may differ, and a list is no tuple."""
    scalar = Scalar("tuple", items=(Scalar("int"), Scalar("str")))
    for value in ((1,), (1, 2), [1, "x"], (1, None)):
        with pytest.raises(StateError):
            encode_element(value, scalar)


def test_a_key_needs_a_value_for_each_kind() -> None:
    """Too many and too few are refused."""
    with pytest.raises(StateError, match="2 elements got 1 values"):
        encode_key((1,), (Scalar("int"), Scalar("int")))


@pytest.mark.parametrize(
    "damaged", ["15", "1500", "0361", "ff", "160000000401", "05", "28", "038000"]
)
def test_damaged_keys_are_refused(damaged: str) -> None:
    """Bytes that end inside an element, or begin with no tag, are never read as values."""
    with pytest.raises(StateError, match="no key"):
        decode_key(bytes.fromhex(damaged))


@given(st.binary(max_size=24))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    """No other error than StateError ever leaves the decoder."""
    with contextlib.suppress(StateError):
        decode_key(data)
