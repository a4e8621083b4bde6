"""Arithmetic: what does not fit its type is an error, and so is a division by zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, certified
from atoll.columns.tree import MAY_FAIL, Call, Literal, Node, RowError
from atoll.columns.types import (
    DOUBLE,
    INTEGERS,
    NotCertifiedError,
    as_decimal,
    common_type,
    decimal_type,
    is_integer,
    is_number,
    words,
)

__all__ = ["checked"]

_FAMILY = "Arithmetic"
_NUMBERS = "byte, short, int, long, double"
_DECIMALS = (
    f"{_NUMBERS}; decimal with decimal and whole numbers, where the result has 38 digits at most"
)
OVERFLOW = "ARITHMETIC_OVERFLOW"


def checked(kernel: str, *arrays: pa.Array, condition: str = OVERFLOW) -> pa.Array:
    """What an Arrow function gives that refuses values without a result.

    Raises:
        RowError: When it refuses one.
    """
    try:
        return pc.call_function(kernel, list(arrays))
    except pa.ArrowInvalid as error:
        raise RowError(condition) from error


def _add(left: pa.Array, right: pa.Array) -> pa.Array:
    return checked("add_checked", left, right)


def _subtract(left: pa.Array, right: pa.Array) -> pa.Array:
    return checked("subtract_checked", left, right)


def _multiply(left: pa.Array, right: pa.Array) -> pa.Array:
    return checked("multiply_checked", left, right)


_KERNELS = {"Add": _add, "Sub": _subtract, "Mul": _multiply}


def _operands(reading: Reading, e: Any, what: str) -> tuple[Node, Node]:
    left, right = reading.node(e.this), reading.node(e.expression)
    for each in (left, right):
        if not is_number(each.type):
            raise NotCertifiedError(f"{what} of {words(each.type)}")
    return left, right


@certified(_FAMILY, "`a + b`, `a - b`, `a * b`", _DECIMALS, "Add", "Sub", "Mul")
def _binary(reading: Reading, e: Any) -> Node:
    word = type(e).__name__
    left, right = _operands(reading, e, {"Add": "+", "Sub": "-", "Mul": "*"}[word])
    if pa.types.is_decimal128(left.type) or pa.types.is_decimal128(right.type):
        if DOUBLE in (left.type, right.type):
            return _typed(reading, _KERNELS[word], DOUBLE, left, right, fails=False)
        return _of_decimals(reading, word, left, right)
    kind = common_type([left, right], "arithmetic")
    return _typed(reading, _KERNELS[word], kind, left, right, fails=kind != DOUBLE)


def _typed(
    reading: Reading, kernel: Any, kind: pa.DataType, left: Node, right: Node, *, fails: bool
) -> Node:
    args = (reading.to(left, kind), reading.to(right, kind))
    return Call(kind, fails or any(each.fails for each in args), kernel, args)


def _of_decimals(reading: Reading, word: str, left: Node, right: Node) -> Node:
    args = tuple(reading.to(each, _decimal_of(each)) for each in (left, right))
    one, other = (each.type for each in args)
    if word == "Mul":
        kind = decimal_type(one.precision + other.precision + 1, one.scale + other.scale)
    else:
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        kind = decimal_type(whole + scale + 1, scale)
    return Call(kind, any(each.fails for each in args), _KERNELS[word], args)


def _decimal_of(node: Node) -> pa.DataType:
    """Of a whole number that was written as many digits as it has."""
    if isinstance(node, Literal) and is_integer(node.type):
        return pa.decimal128(len(str(abs(node.value))), 0)
    return as_decimal(node.type)


@certified(_FAMILY, "`a / b`: a double", _NUMBERS, "Div")
def _division(reading: Reading, e: Any) -> Node:
    left, right = _operands(reading, e, "/")
    if pa.types.is_decimal128(left.type) or pa.types.is_decimal128(right.type):
        raise NotCertifiedError("/ of decimal")
    args = (reading.to(left, DOUBLE), reading.to(right, DOUBLE))
    return Call(DOUBLE, MAY_FAIL, _divide, args, backwards=True)


def _no_zero(left: pa.Array, right: pa.Array, condition: str) -> None:
    zero = pc.and_(left.is_valid(), pc.equal(right, pa.scalar(0, right.type)))
    if pc.any(zero).as_py():
        raise RowError(condition)


def _divide(left: pa.Array, right: pa.Array) -> pa.Array:
    _no_zero(left, right, "DIVIDE_BY_ZERO")
    return pc.divide(left, right)


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


@certified(_FAMILY, "`a % b`, `mod(a, b)`: of the sign of `a`", _NUMBERS, "Mod")
def _remainder(reading: Reading, e: Any) -> Node:
    left, right = _operands(reading, e, "%")
    if pa.types.is_decimal128(left.type) or pa.types.is_decimal128(right.type):
        raise NotCertifiedError("% of decimal")
    kind = common_type([left, right], "%")
    args = (reading.to(left, kind), reading.to(right, kind))
    return Call(kind, MAY_FAIL, _rest, args, backwards=True)


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


@certified(_FAMILY, "`-a`, `+a`, `abs(a)`", f"{_NUMBERS}", "Neg", "Abs", "Pos")
def _unary(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if not is_integer(value.type) and value.type != DOUBLE:
        raise NotCertifiedError(f"{type(e).__name__} of {words(value.type)}")
    word = type(e).__name__
    if word == "Pos":
        return value
    fails = value.fails or is_integer(value.type)
    return Call(value.type, fails, _negated if word == "Neg" else _absolute, (value,))


def _negated(values: pa.Array) -> pa.Array:
    return checked("negate_checked", values)


def _absolute(values: pa.Array) -> pa.Array:
    return checked("abs_checked", values)


_BITWISE = {
    "BitwiseAnd": pc.bit_wise_and,
    "BitwiseOr": pc.bit_wise_or,
    "BitwiseXor": pc.bit_wise_xor,
}


@certified(_FAMILY, "`a & b`, `a | b`, `a ^ b`", "byte, short, int, long", *_BITWISE)
def _bitwise(reading: Reading, e: Any) -> Node:
    left, right = _operands(reading, e, "a bitwise operator")
    kind = common_type([left, right], "a bitwise operator")
    if kind not in INTEGERS:
        raise NotCertifiedError(f"a bitwise operator of {words(kind)}")
    return _typed(reading, _BITWISE[type(e).__name__], kind, left, right, fails=False)


@certified(_FAMILY, "`~a`", "byte, short, int, long", "BitwiseNot")
def _inverted(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if value.type not in INTEGERS:
        raise NotCertifiedError(f"~ of {words(value.type)}")
    return Call(value.type, value.fails, pc.bit_wise_not, (value,))
