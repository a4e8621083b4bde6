"""Arithmetic: what does not fit its type is an error, and so is a division by zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns import decimals
from atoll.columns.families import dates
from atoll.columns.forms import Reading, certified
from atoll.columns.tree import MAY_FAIL, Call, Literal, Node, RowError, any_fails
from atoll.columns.types import (
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    NotCertifiedError,
    as_decimal,
    common_type,
    is_decimal,
    is_floating,
    is_integer,
    is_number,
    words,
)

_FAMILY = "Arithmetic"
_NUMBERS = "byte, short, int, long, float, double"
_ALL = f"{_NUMBERS}, decimal; decimals with up to 76 digits on the way"
OVERFLOW = "ARITHMETIC_OVERFLOW"
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_CHECKED = {"Add": "add_checked", "Sub": "subtract_checked", "Mul": "multiply_checked"}


def checked(kernel: str, *arrays: pa.Array, condition: str = OVERFLOW) -> pa.Array:
    """What an Arrow function gives that refuses values without a result.

    Raises:
        RowError: When it refuses one.
    """
    try:
        return pc.call_function(kernel, list(arrays))
    except pa.ArrowInvalid as error:
        raise RowError(condition) from error


def _computed(left: pa.Array, right: pa.Array, kernel: str) -> pa.Array:
    return checked(kernel, left, right)


def _in_decimals(left: pa.Array, right: pa.Array, kernel: str, kind: pa.DataType) -> pa.Array:
    return decimals.exactly(kernel, left, right, kind)


def _operands(reading: Reading, e: Any, what: str) -> tuple[Node, Node]:
    left, right = reading.node(e.this), reading.node(e.expression)
    for each in (left, right):
        if not is_number(each.type):
            raise NotCertifiedError(f"{what} of {words(each.type)}")
    return left, right


@certified(_FAMILY, "`a + b`, `a - b`, `a * b`", _ALL, "Add", "Sub", "Mul")
@certified(*dates.SHIFTED, "Add", "Sub")
def _binary(reading: Reading, e: Any) -> Node:
    word = type(e).__name__
    if word != "Mul":
        shifted = dates.shifted(reading, e)
        if shifted is not None:
            return shifted
    left, right = _operands(reading, e, _SIGNS[word])
    pair = _as_decimals(reading, left, right)
    if pair is not None:
        return _of_decimals(word, *pair)
    kind = common_type([left, right], "arithmetic")
    args = (reading.to(left, kind), reading.to(right, kind))
    fails = is_integer(kind) or any_fails(args)
    return Call(kind, fails, _computed, args, (_CHECKED[word],))


def _as_decimals(reading: Reading, left: Node, right: Node) -> tuple[Node, Node] | None:
    """Both as decimals, where one of them is one and the other no double."""
    kinds = (left.type, right.type)
    if not any(map(is_decimal, kinds)) or any(map(is_floating, kinds)):
        return None
    return reading.to(left, _decimal_of(left)), reading.to(right, _decimal_of(right))


def _of_decimals(word: str, left: Node, right: Node) -> Node:
    one, other = left.type, right.type
    kind = decimals.result_type(word, one, other)
    fails = any_fails((left, right))
    scale = one.scale + other.scale if word == "Mul" else max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale) + 1
    if word == "Mul":
        whole = one.precision + other.precision + 1 - scale
    args = (left, right)
    if whole + scale <= DECIMAL_DIGITS_MAX:
        return Call(kind, fails, _computed, args, (_CHECKED[word],))
    return Call(kind, MAY_FAIL, _in_decimals, args, (_CHECKED[word].split("_")[0], kind))


def _decimal_of(node: Node) -> pa.DataType:
    """Of a whole number that was written as many digits as it has."""
    if type(node) is Literal and is_integer(node.type) and node.value is not None:
        return pa.decimal128(len(str(abs(node.value))), 0)
    return as_decimal(node.type)


@certified(_FAMILY, "`a / b`: a double, or a decimal", f"{_NUMBERS}, decimal", "Div")
def _division(reading: Reading, e: Any) -> Node:
    left, right = _operands(reading, e, "/")
    pair = _as_decimals(reading, left, right)
    if pair is not None:
        kind = decimals.result_type("Div", pair[0].type, pair[1].type)
        return Call(kind, MAY_FAIL, _divide_decimals, pair, (kind,), backwards=True)
    args = (reading.to(left, DOUBLE), reading.to(right, DOUBLE))
    return Call(DOUBLE, MAY_FAIL, _divide, args, backwards=True)


def _no_zero(left: pa.Array, right: pa.Array, condition: str) -> None:
    zero = pc.and_(left.is_valid(), pc.equal(right, pa.scalar(0, right.type)))
    if pc.any(zero).as_py():
        raise RowError(condition)


def _divide(left: pa.Array, right: pa.Array) -> pa.Array:
    _no_zero(left, right, "DIVIDE_BY_ZERO")
    return pc.divide(left, right)


def _divide_decimals(left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
    _no_zero(left, right, "DIVIDE_BY_ZERO")
    return decimals.divided(left, right, kind)


@certified(_FAMILY, "`a div b`: a long", "byte, short, int, long", "IntDiv")
def _whole_division(reading: Reading, e: Any) -> Node:
    left, right = _operands(reading, e, "div")
    if not is_integer(left.type) or not is_integer(right.type):
        raise NotCertifiedError("div of anything but whole numbers")
    args = (reading.to(left, pa.int64()), reading.to(right, pa.int64()))
    return Call(pa.int64(), MAY_FAIL, _quotient, args, backwards=True)


def _quotient(left: pa.Array, right: pa.Array) -> pa.Array:
    _no_zero(left, right, "DIVIDE_BY_ZERO")
    return checked("divide_checked", left, right)


@certified(
    _FAMILY,
    "`a % b`, `mod(a, b)`: of the sign of `a`",
    f"{_NUMBERS}; decimals where 38 digits are enough for the quotient",
    "Mod",
)
def _remainder(reading: Reading, e: Any) -> Node:
    left, right = _operands(reading, e, "%")
    pair = _as_decimals(reading, left, right)
    if pair is not None:
        kind = decimals.result_type("Mod", pair[0].type, pair[1].type)
        return Call(kind, MAY_FAIL, _decimal_rest, pair, (kind,), backwards=True)
    kind = common_type([left, right], "%")
    args = (reading.to(left, kind), reading.to(right, kind))
    return Call(kind, MAY_FAIL, _rest, args, backwards=True)


def _decimal_rest(left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
    _no_zero(left, right, "REMAINDER_BY_ZERO")
    return decimals.remainder(left, right, kind)


def _rest(left: pa.Array, right: pa.Array) -> pa.Array:
    _no_zero(left, right, "REMAINDER_BY_ZERO")
    nulls = pc.or_(left.is_null(), right.is_null())
    one = pa.scalar(1, right.type)
    divisor = right.fill_null(one)
    dividend = left.fill_null(one)
    if is_integer(left.type):  # the least number by -1 does not fit, though the rest is 0
        divisor = pc.if_else(pc.equal(divisor, pa.scalar(-1, right.type)), one, divisor)
    a = dividend.to_numpy(zero_copy_only=False)
    b = divisor.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        found = pa.array(np.fmod(a, np.where(b == 0, 1, b).astype(b.dtype)), left.type)
    return pc.if_else(nulls, pa.scalar(None, left.type), found)


_NEGATED_DIGITS_MAX = 34


@certified(
    _FAMILY,
    "`-a`, `+a`, `abs(a)`, `negative(a)`, `positive(a)`",
    f"{_NUMBERS}; decimal of 34 digits at most",
    *("Neg", "Abs", "Pos", "Negative", "positive"),
)
def _unary(reading: Reading, e: Any) -> Node:
    word = type(e).__name__
    value = reading.node(e.expressions[0] if word == "Anonymous" else e.this)
    if not is_number(value.type):
        raise NotCertifiedError(f"{word} of {words(value.type)}")
    if is_decimal(value.type) and value.type.precision > _NEGATED_DIGITS_MAX:
        raise NotCertifiedError(f"{word} of {words(value.type)}, which Spark rounds")
    if word in ("Pos", "Anonymous"):
        return value
    fails = value.fails or is_integer(value.type)
    kernel = _absolute if word == "Abs" else _negated
    return Call(value.type, fails, kernel, (value,))


def _negated(values: pa.Array) -> pa.Array:
    return checked("negate_checked", values)


def _absolute(values: pa.Array) -> pa.Array:
    return checked("abs_checked", values)
