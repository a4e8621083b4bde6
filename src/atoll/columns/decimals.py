"""Decimals as Spark computes with them: exactly, and then rounded to what the result holds.

Which digits a result holds is in Spark's table of result types (``DecimalType`` and
``org.apache.spark.sql.catalyst.expressions.arithmetic``); half a digit is rounded away from zero.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.tree import RowError
from atoll.columns.types import DECIMAL_DIGITS_MAX, NotCertifiedError, bounded_decimal, words

OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE"
WIDE_DIGITS_MAX = 76
_QUOTIENT_SCALE = 39
"""Behind the point, of a quotient before it is rounded to what it shall hold."""
_QUOTIENT_SCALE_MIN = 6
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP)


def result_type(word: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """What Spark makes of two decimals.

    Args:
        word: ``Add``, ``Sub``, ``Mul``, ``Div`` or ``Mod``.
        one: The type of the left.
        other: The type of the right.

    Raises:
        NotCertifiedError: When the way to it needs more digits than are computed with.
    """
    scale = max(one.scale, other.scale)
    wholes = (one.precision - one.scale, other.precision - other.scale)
    match word:
        case "Mul":
            made = (one.precision + other.precision + 1, one.scale + other.scale)
        case "Div":
            scale = max(_QUOTIENT_SCALE_MIN, one.scale + other.precision + 1)
            return bounded_decimal(wholes[0] + other.scale + scale, scale)
        case "Mod":
            if wholes[0] + other.scale > DECIMAL_DIGITS_MAX:
                raise NotCertifiedError(f"% of {words(one)} and {words(other)}")
            return bounded_decimal(min(wholes) + scale, scale)
        case _:
            made = (max(wholes) + scale + 1, scale)
    if made[0] > WIDE_DIGITS_MAX:
        raise NotCertifiedError(f"arithmetic of {words(one)} and {words(other)}")
    return bounded_decimal(*made)


def exactly(kernel: str, left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
    """A sum, difference or product.

    Raises:
        RowError: When one does not fit.
    """
    wide = [_wide(each) for each in (left, right)]
    return rescaled(pc.call_function(kernel, wide), kind)


def _wide(values: pa.Array) -> pa.Array:
    return values.cast(pa.decimal256(values.type.precision, values.type.scale))


def rescaled(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """With the digits that a type holds.

    Raises:
        RowError: When one does not fit.
    """
    given = values.type
    if given.scale == kind.scale and given.precision <= kind.precision:
        return values.cast(kind)
    wide = values.cast(pa.decimal256(WIDE_DIGITS_MAX, values.type.scale))
    try:
        if kind.scale < values.type.scale:
            wide = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
        elif kind.scale > values.type.scale:
            wide = wide.cast(pa.decimal256(WIDE_DIGITS_MAX, kind.scale))
        return wide.cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError(OUT_OF_RANGE) from error


def divided(left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
    """Quotients; nothing is divided by zero.

    Raises:
        RowError: When one does not fit.
    """
    kept, at = Decimal(1).scaleb(-kind.scale), Decimal(1).scaleb(-_QUOTIENT_SCALE)

    def quotient(a: Decimal, b: Decimal) -> Decimal:
        return _EXACT.quantize(_EXACT.quantize(_EXACT.divide(a, b), at), kept)

    return _of_each(quotient, left, right, kind)


def remainder(left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
    """Rests, of the sign of the left; nothing is divided by zero."""
    return _of_each(_EXACT.remainder, left, right, kind)


def _of_each(
    function: Callable[[Decimal, Decimal], Decimal],
    left: pa.Array,
    right: pa.Array,
    kind: pa.DataType,
) -> pa.Array:
    found = [
        None if a is None or b is None else function(a, b)
        for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)
    ]
    try:
        return pa.array(found, kind)
    except pa.ArrowInvalid as error:
        raise RowError(OUT_OF_RANGE) from error


def to_double(values: pa.Array) -> pa.Array:
    """The nearest double; a cast of Arrow's is not always."""
    found = np.array([0.0 if each is None else float(each) for each in values.to_pylist()])
    return pa.array(found, mask=np.asarray(values.is_null()))
