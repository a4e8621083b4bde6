"""Holds that decimals become Arrow columns exactly or are refused, whatever their exponent is."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atoll.aggregates.kernels.types import exact_cast
from atoll.exact_values import exact_array, holds_decimals, sound_decimals

WIDE = pa.decimal128(38, 18)

exponents = st.one_of(
    st.integers(-80, 80),
    st.integers(-1000, 1000),
    st.sampled_from([-99_999_999, -10_000_000, 10_000_000, 99_999_999]),
)
types = st.sampled_from([WIDE, pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal128(38, 38)])


def decimal(digits: int, exponent: int) -> Decimal:
    """The number ``digits * 10**exponent``, as it is written."""
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), exponent))


def fits(digits: int, exponent: int, kind: pa.DataType) -> int | None:
    """The number as whole units of the type, by whole numbers alone; None where it is none."""
    shift = exponent + kind.scale
    if digits == 0:
        return 0
    if not -100 < shift < 100:
        return None
    units = Fraction(digits) * Fraction(10) ** shift
    held = units.denominator == 1 and abs(units) < 10**kind.precision
    return int(units) if held else None


@given(st.integers(-(10**45), 10**45), exponents, types)
@example(0, -99_999_999, WIDE)
@example(0, 99_999_999, WIDE)
@example(1, -77, WIDE)
@example(1, -10_000_000, WIDE)
@example(10**40, -25, WIDE)
@example(10**38 - 1, -18, WIDE)
@example(10**38, -18, WIDE)
def test_every_exponent_is_kept_exactly_or_refused(
    digits: int, exponent: int, kind: pa.DataType
) -> None:
    """Top-level, in a list, in a map's item, in a struct, and as text: the same everywhere."""
    value = decimal(digits, exponent)
    members = pa.struct([("x", pa.string()), ("d", kind)])
    makers = [
        lambda: exact_array([None, value], kind).to_pylist()[1],
        lambda: exact_array([Decimal(0), value, None], kind).to_pylist()[1],
        lambda: exact_array([[], [None, value], None], pa.list_(kind))[1].as_py()[1],
        lambda: exact_array([{"k": value}], pa.map_(pa.string(), kind))[0].as_py()[0][1],
        lambda: exact_array([None, {"x": "y", "d": value}], members)[1].as_py()["d"],
        lambda: exact_array([("y", value)], members)[0].as_py()["d"],
        lambda: exact_cast(pa.array([None, str(value)]), kind).to_pylist()[1],
    ]
    units = fits(digits, exponent, kind)
    for make in makers:
        if units is None:
            with pytest.raises(pa.ArrowInvalid, match="does not fit decimal"):
                make()
        else:
            with localcontext(prec=60):
                assert Fraction(units, 10**kind.scale) == Fraction(make())


@given(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.sampled_from([(38, 38), (38, 20), (38, 0), (38, -10), (76, 0), (76, 40), (76, -38)]),
    types,
)
@example(10**37 + 7, (76, 0), WIDE)
def test_another_scale_is_exact_or_refused(
    digits: int, found: tuple[int, int], kind: pa.DataType
) -> None:
    """Also where the scale's change needs more room than Arrow has, and wraps around."""
    precision, scale = found
    make = pa.decimal128 if precision == 38 else pa.decimal256
    data = digits.to_bytes(16 if precision == 38 else 32, "little", signed=True)
    array = pa.Array.from_buffers(make(precision, scale), 1, [None, pa.py_buffer(data)])
    units = fits(digits, -scale, kind)
    if units is None:
        with pytest.raises(pa.ArrowInvalid):
            exact_cast(array, kind)
    else:
        assert Fraction(exact_cast(array, kind)[0].as_py()) == Fraction(units, 10**kind.scale)


@pytest.mark.parametrize("scale", [-(2**31), -10_000_000, -39, 39, 10_000_000, 2**31 - 1])
def test_scales_that_arrow_cannot_move_are_refused(scale: int) -> None:
    """A stream over HTTP may declare such a type; it is never cast, nor written out."""
    kind = pa.decimal128(38, scale)
    array = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(16))])
    assert not sound_decimals(kind)
    assert not sound_decimals(pa.map_(pa.string(), pa.list_(pa.struct([("a", kind)]))))
    assert not sound_decimals(pa.dictionary(pa.int32(), kind))
    with pytest.raises(pa.ArrowInvalid, match="scale"):
        exact_cast(array, WIDE)
    with pytest.raises(pa.ArrowInvalid, match="scale"):
        exact_cast(array, pa.float64())


@pytest.mark.parametrize("value", ["1_0", " 1", "", "1e", "ten", "NaN", "1E-99999999999999999999"])
def test_text_that_is_no_number(value: str) -> None:
    """Python reads more than Arrow does; a decimal column takes numbers only."""
    with pytest.raises(pa.ArrowInvalid):
        exact_cast(pa.array([value]), WIDE)


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("kind", [WIDE, pa.list_(WIDE), pa.int64()])
def test_what_is_no_number(value: str, kind: pa.DataType) -> None:
    """Not in decimals and not in integers."""
    found = [Decimal(value)] if pa.types.is_nested(kind) else Decimal(value)
    with pytest.raises(pa.ArrowInvalid):
        exact_array([found], kind)


@pytest.mark.parametrize("value", [Decimal("1.5"), Decimal("1E-10000000"), 1.5])
def test_integers_are_not_cut(value: object) -> None:
    """Arrow made 1 of 1.5; nested ones, too."""
    for values, kind in [([value], pa.int64()), ([[1, value]], pa.list_(pa.int64()))]:
        with pytest.raises(pa.ArrowInvalid):
            exact_array(values, kind)


def test_integers_from_decimals() -> None:
    """A whole one is taken; a huge one is refused without being written out."""
    values = [Decimal("12E3"), 7, None, 2.0, Decimal("0E-99999999")]
    assert exact_array(values, pa.int64()).to_pylist() == [12_000, 7, None, 2, 0]
    for huge in ("1E999999999", "1E19"):
        with pytest.raises((pa.ArrowInvalid, OverflowError)):
            exact_array([Decimal(huge)], pa.int64())
    with pytest.raises(pa.ArrowInvalid, match="an int of 16610 bits"):
        exact_array([10**5000], WIDE)


def test_other_types_are_as_before() -> None:
    """Bools, floats and text are no decimals; lists of pairs are structs and maps."""
    for value in (True, 1.5, "1"):
        with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
            exact_array([value], WIDE)
    for value, kind in [("ab", pa.list_(WIDE)), ([1], pa.map_(WIDE, WIDE)), (3, pa.list_(WIDE))]:
        with pytest.raises(pa.ArrowTypeError):
            exact_array([value], kind)
    pair = pa.struct([("a", WIDE), ("b", pa.int8())])
    assert exact_array([[("a", Decimal(1)), ("b", 2)]], pair).to_pylist() == [{"a": 1, "b": 2}]
    assert exact_array([{"a": 1}], pair).to_pylist() == [{"a": 1, "b": None}]
    with pytest.raises(pa.ArrowTypeError, match="a, b"):
        exact_array([(1,)], pair)
    assert holds_decimals(pair)
    assert not holds_decimals(pa.list_(pa.int64()))
