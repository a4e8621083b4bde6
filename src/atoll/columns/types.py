"""Which types are computed with, and to which common one Spark's ANSI mode brings operands."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from atoll.columns.tree import Node
from atoll.ddl import type_in_words

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
DOUBLE = pa.float64()
FLOAT = pa.float32()
DATE = pa.date32()
INSTANT = pa.timestamp("us", "UTC")
TIMES = (INSTANT, pa.timestamp("us"))
"""Points in time: the first in UTC, which is the session's time zone, the second in none."""
DECIMAL_DIGITS_MAX = 38
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_SCALE_KEPT = 6
_COMPARED = (pa.bool_(), pa.string(), DATE, *TIMES, DOUBLE, FLOAT, *INTEGERS)


class NotCertifiedError(Exception):
    """Why an expression is left to Spark, in words."""


def words(kind: pa.DataType) -> str:
    """A type as users call it."""
    return "null" if pa.types.is_null(kind) else type_in_words(kind)


def is_integer(kind: pa.DataType) -> bool:
    """Whether it is one of the whole-number types."""
    return kind in INTEGERS


def is_floating(kind: pa.DataType) -> bool:
    """Whether it is a float or a double."""
    return kind in (FLOAT, DOUBLE)


def is_decimal(kind: pa.DataType) -> bool:
    """Whether it is a decimal."""
    return bool(pa.types.is_decimal128(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether it is a number."""
    return is_integer(kind) or is_floating(kind) or is_decimal(kind)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Spark's decimal, where it needs no rounding.

    Raises:
        NotCertifiedError: When Spark would cut digits off.
    """
    if precision > DECIMAL_DIGITS_MAX:
        raise NotCertifiedError(f"a decimal of {precision} digits, which Spark would round")
    return pa.decimal128(precision, scale)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Spark's decimal for a result of that size: of too many digits those behind the point go.

    Six of them stay in any case, as many as there are at least: then values may not fit.
    """
    if precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(precision, scale)
    room = DECIMAL_DIGITS_MAX - (precision - scale)
    return pa.decimal128(DECIMAL_DIGITS_MAX, max(room, min(scale, _SCALE_KEPT)))


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """The decimal that holds all values of a whole-number type."""
    return pa.decimal128(_DIGITS[kind], 0) if kind in _DIGITS else kind


def common_type(nodes: Sequence[Node], what: str) -> pa.DataType:
    """What Spark casts operands to that must be of one type.

    Raises:
        NotCertifiedError: When it is none that is certified.
    """
    kinds = list(dict.fromkeys(each.type for each in nodes if not pa.types.is_null(each.type)))
    if not kinds:
        return pa.null()
    if len(kinds) == 1 and (kinds[0] in _COMPARED or is_decimal(kinds[0])):
        return kinds[0]
    if all(map(is_integer, kinds)):
        return max(kinds, key=INTEGERS.index)
    if all(map(is_number, kinds)) and any(map(is_floating, kinds)):
        return DOUBLE
    if all(is_integer(each) or is_decimal(each) for each in kinds):
        decimals = [as_decimal(each) for each in kinds]
        scale = max(each.scale for each in decimals)
        return decimal_type(max(each.precision - each.scale for each in decimals) + scale, scale)
    if all(each in (DATE, *TIMES) for each in kinds):
        return INSTANT if INSTANT in kinds else TIMES[1]
    raise NotCertifiedError(f"{what} of {' and '.join(map(words, kinds))}")
