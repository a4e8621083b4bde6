"""Bits of whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, certified
from atoll.columns.tree import Call, Node
from atoll.columns.types import INTEGERS, NotCertifiedError, common_type, words

_FAMILY = "Bits"
_INTEGERS = "byte, short, int, long"
_SHIFTED = "int, long (byte and short as int); by a number of type byte, short or int"
_BITWISE = {
    "BitwiseAnd": pc.bit_wise_and,
    "BitwiseOr": pc.bit_wise_or,
    "BitwiseXor": pc.bit_wise_xor,
}


def _whole(node: Node, what: str) -> Node:
    if node.type not in INTEGERS:
        raise NotCertifiedError(f"{what} of {words(node.type)}")
    return node


@certified(_FAMILY, "`a & b`, `a | b`, `a ^ b`", _INTEGERS, *_BITWISE)
def _bitwise(reading: Reading, e: Any) -> Node:
    pair = [_whole(reading.node(each), "a bitwise operator") for each in (e.this, e.expression)]
    kind = common_type(pair, "a bitwise operator")
    args = tuple(reading.to(each, kind) for each in pair)
    return Call(kind, any(each.fails for each in args), _BITWISE[type(e).__name__], args)


@certified(_FAMILY, "`~a`", _INTEGERS, "BitwiseNot")
def _inverted(reading: Reading, e: Any) -> Node:
    value = _whole(reading.node(e.this), "~")
    return Call(value.type, value.fails, pc.bit_wise_not, (value,))


@certified(
    _FAMILY,
    "`a << b`, `a >> b`, `shiftleft(a, b)`, `shiftright(a, b)`",
    _SHIFTED,
    "BitwiseLeftShift",
    "BitwiseRightShift",
)
def _shift(reading: Reading, e: Any) -> Node:
    kernel = _left if type(e).__name__ == "BitwiseLeftShift" else _right
    return _shifted(reading, [e.this, e.expression], kernel)


@certified(_FAMILY, "`shiftrightunsigned(a, b)`", _SHIFTED, "shiftrightunsigned")
def _shift_unsigned(reading: Reading, e: Any) -> Node:
    if len(e.expressions) != 2:  # noqa: PLR2004 - what, and by how much
        raise NotCertifiedError("shiftrightunsigned of other than two arguments")
    return _shifted(reading, e.expressions, _unsigned)


def _shifted(reading: Reading, given: list[Any], kernel: Any) -> Node:
    value, by = (_whole(reading.node(each), "a shift") for each in given)
    if by.type == pa.int64():
        raise NotCertifiedError("a shift by a long")
    kind = pa.int64() if value.type == pa.int64() else pa.int32()
    args = (reading.to(value, kind), reading.to(by, pa.int32()))
    return Call(kind, any(each.fails for each in args), kernel, args)


def _left(values: pa.Array, by: pa.Array) -> pa.Array:
    return _by_places(np.left_shift, values, by, "i")


def _right(values: pa.Array, by: pa.Array) -> pa.Array:
    return _by_places(np.right_shift, values, by, "i")


def _unsigned(values: pa.Array, by: pa.Array) -> pa.Array:
    return _by_places(np.right_shift, values, by, "u")


def _by_places(shift: np.ufunc, values: pa.Array, by: pa.Array, sign: str) -> pa.Array:
    """By as many places as the lowest bits say; Arrow leaves out the greatest number of them."""
    nulls = np.asarray(values.is_null()) | np.asarray(by.is_null())
    width = values.type.bit_width // 8
    bits = values.fill_null(0).to_numpy(zero_copy_only=False).view(f"{sign}{width}")
    places = by.fill_null(0).to_numpy(zero_copy_only=False) & (values.type.bit_width - 1)
    found = shift(bits, places.astype(bits.dtype))
    return pa.array(found.view(f"i{width}"), values.type, mask=nulls)
