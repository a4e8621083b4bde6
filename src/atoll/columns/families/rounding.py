"""Functions of numbers: rounding, roots, signs, remainders that are never negative.

Left to Spark: what rounds doubles to digits, which depends on how the Java under Spark writes
them; powers, logarithms and the like, of which numpy gives other last bits than Java's
``StrictMath``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns import decimals
from atoll.columns.forms import Reading, arguments, certified
from atoll.columns.tree import MAY_FAIL, Call, Literal, Node, RowError
from atoll.columns.types import (
    DOUBLE,
    FLOAT,
    NotCertifiedError,
    bounded_decimal,
    common_type,
    is_decimal,
    is_floating,
    is_integer,
    is_number,
    words,
)

_FAMILY = "Numbers"
_OVERFLOW = "ARITHMETIC_OVERFLOW"
_DIGITS_MAX = 38


def _number(node: Node, what: str) -> Node:
    if not is_number(node.type):
        raise NotCertifiedError(f"{what} of {words(node.type)}")
    return node


@certified(
    _FAMILY,
    "`ceil(a)`, `ceiling(a)`, `floor(a)`: a long, or a decimal",
    "byte, short, int, long, float, double, decimal",
    "Ceil",
    "Floor",
)
def _ceil_or_floor(reading: Reading, e: Any) -> Node:
    word = type(e).__name__.lower()
    value = _number(reading.node(e.this), word)
    if is_integer(value.type):
        return reading.to(value, pa.int64())
    if is_decimal(value.type):
        return _whole_decimal(value, word)
    return Call(pa.int64(), MAY_FAIL, _whole, (reading.to(value, DOUBLE),), (word,))


def _whole_decimal(value: Node, word: str) -> Node:
    given = value.type
    kind = bounded_decimal(given.precision - given.scale + 1, 0) if given.scale else given
    return Call(kind, value.fails, _decimal_whole, (value,), (word, kind))


def _decimal_whole(values: pa.Array, word: str, kind: pa.DataType) -> pa.Array:
    wide = values.cast(pa.decimal256(decimals.WIDE_DIGITS_MAX, values.type.scale))
    return pc.call_function(word, [wide]).cast(kind)


def _whole(values: pa.Array, word: str) -> pa.Array:
    """NaN gives 0; what is no long is an error."""
    numbers = pc.call_function(word, [values]).fill_null(0.0).to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(numbers), 0.0, numbers)
    top = 2.0**63
    if ((numbers >= top) | (numbers < -top)).any():
        raise RowError(_OVERFLOW)
    return pa.array(numbers.astype(np.int64), mask=np.asarray(values.is_null()))


@certified(
    _FAMILY,
    "`round(a[, 2])`, `bround(a[, 2])`",
    "byte, short, int, long, decimal; a literal",
    "Round",
    "bround",
)
def _round(reading: Reading, e: Any) -> Node:
    given = list(e.expressions) if e.key == "anonymous" else [e.this]
    if e.args.get("decimals") is not None:
        given.append(e.args["decimals"])
    value = _number(reading.node(given[0]), "round")
    digits = 0
    if len(given) > 1:
        found = reading.node(given[1])
        if len(given) > 2 or not isinstance(found, Literal) or type(found.value) is not int:  # noqa: PLR2004
            raise NotCertifiedError("round to a number of digits that is no literal")
        digits = found.value
    if abs(digits) > _DIGITS_MAX:
        raise NotCertifiedError("round to so many digits")
    mode = "half_to_even" if e.key == "anonymous" else "half_towards_infinity"
    if is_integer(value.type):
        if digits >= 0:
            return value
        return Call(value.type, MAY_FAIL, _rounded_whole, (value,), (digits, mode))
    if is_decimal(value.type):
        kind = _rounded_type(value.type, digits)
        return Call(kind, MAY_FAIL, _rounded, (value,), (digits, mode, kind))
    raise NotCertifiedError(
        f"round of {words(value.type)}, which is not the same with each version of Java"
    )


def _rounded_type(given: pa.DataType, digits: int) -> pa.DataType:
    """As many digits behind the point as are asked for, and one more before it."""
    whole = given.precision - given.scale + 1
    if digits < 0:
        return pa.decimal128(min(max(whole, -digits + 1), _DIGITS_MAX), 0)
    kept = min(given.scale, digits)
    return pa.decimal128(min(whole + kept, _DIGITS_MAX), kept)


def _rounded(values: pa.Array, digits: int, mode: str, kind: pa.DataType) -> pa.Array:
    wide = values.cast(pa.decimal256(decimals.WIDE_DIGITS_MAX, values.type.scale))
    if digits < values.type.scale:
        wide = pc.round(wide, ndigits=digits, round_mode=mode)
    try:
        return wide.cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError(decimals.OUT_OF_RANGE) from error


def _rounded_whole(values: pa.Array, digits: int, mode: str) -> pa.Array:
    wide = values.cast(pa.int64()).cast(pa.decimal128(38, 0))
    try:
        return pc.round(wide, ndigits=digits, round_mode=mode).cast(values.type)
    except pa.ArrowInvalid as error:
        raise RowError(_OVERFLOW) from error


@certified(_FAMILY, "`sqrt(a)`", "byte, short, int, long, float, double, decimal", "Sqrt")
def _sqrt(reading: Reading, e: Any) -> Node:
    value = reading.to(_number(reading.node(e.this), "sqrt"), DOUBLE)
    return Call(DOUBLE, value.fails, pc.sqrt, (value,))


@certified(_FAMILY, "`sign(a)`, `signum(a)`", "byte, short, int, long, float, double", "Sign")
def _sign(reading: Reading, e: Any) -> Node:
    value = _number(reading.node(e.this), "sign")
    if is_decimal(value.type):
        raise NotCertifiedError("sign of decimal")
    value = reading.to(value, DOUBLE)
    return Call(DOUBLE, value.fails, _signs, (value,))


def _signs(values: pa.Array) -> pa.Array:
    """Of zeros the zeros themselves, which have signs."""
    return pc.if_else(pc.equal(values, 0.0), values, pc.sign(values))


@certified(_FAMILY, "`pmod(a, b)`", "byte, short, int, long, float, double", "pmod")
def _pmod(reading: Reading, e: Any) -> Node:
    left, right = (_number(reading.node(each), "pmod") for each in arguments(e, 2))
    kind = common_type([left, right], "pmod")
    if is_decimal(kind):
        raise NotCertifiedError("pmod of decimal")
    args = (reading.to(left, kind), reading.to(right, kind))
    return Call(kind, MAY_FAIL, _positive_rest, args, backwards=True)


def _positive_rest(left: pa.Array, right: pa.Array) -> pa.Array:
    """As Spark has it: the rest, and where it is negative the rest of it and the divisor."""
    nulls = np.asarray(pc.or_(left.is_null(), right.is_null()))
    a = left.fill_null(pa.scalar(1, left.type)).to_numpy(zero_copy_only=False)
    b = right.fill_null(pa.scalar(1, right.type)).to_numpy(zero_copy_only=False)
    if ((b == 0) & ~nulls).any():
        raise RowError("REMAINDER_BY_ZERO")
    b = np.where(b == 0, np.ones(1, b.dtype), b)
    with np.errstate(all="ignore"):
        if is_integer(left.type):  # the least number by -1 does not fit, though the rest is 0
            b = np.where(b == -1, np.ones(1, b.dtype), b)
            a, b = (each.astype(np.promote_types(each.dtype, np.int32)) for each in (a, b))
        rest = np.fmod(a, b)
        found = np.where(rest < 0, np.fmod(rest + b, b), rest)
    return pa.array(found.astype(left.type.to_pandas_dtype()), left.type, mask=nulls)


@certified(_FAMILY, "`nanvl(a, b)`", "float, double", "Nanvl")
def _nanvl(reading: Reading, e: Any) -> Node:
    left, right = reading.node(e.this), reading.node(e.expression)
    if not is_floating(left.type) or right.fails:
        raise NotCertifiedError(f"nanvl of {words(left.type)}, or of what can fail")
    kind = FLOAT if left.type == right.type == FLOAT else DOUBLE
    args = (reading.to(left, kind), reading.to(right, kind))
    return Call(kind, left.fails, _instead_of_nan, args)


def _instead_of_nan(values: pa.Array, others: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(values), others, values)
