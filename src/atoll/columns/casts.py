"""Casts: those that Spark makes by itself, and those that users write."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, certified
from atoll.columns.tree import MAY_FAIL, SURE, Call, Literal, Node, RowError
from atoll.columns.types import (
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INSTANT,
    INTEGERS,
    NotCertifiedError,
    is_integer,
    words,
)

__all__ = ["cast", "widened", "written_type"]

_FAMILY = "Casts"
_EXACT_DIGITS = 15
_SCALE_MAX = 18
_WRITTEN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": DOUBLE,
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "DATE": DATE,
}
_TRIMMED = "".join(map(chr, [*range(0x21), 0x7F]))
"""What Spark leaves out around a number: spaces and control characters of ASCII."""
_NUMBER = r"^[+-]?[0-9]+$"


def written_type(kind: Any) -> pa.DataType:
    """The type that a user wrote, of what sqlglot read.

    Raises:
        NotCertifiedError: When nothing is cast to it.
    """
    name = kind.this.name
    given = [each.this.name for each in kind.expressions]
    if name == "DECIMAL" and all(re.fullmatch(r"\d{1,2}", each) for each in given):
        precision, scale, *_ = (*map(int, given), *(10, 0)[len(given) :])
        if 0 < precision <= DECIMAL_DIGITS_MAX and scale <= precision:
            return pa.decimal128(precision, scale)
    if name not in _WRITTEN or given or kind.args.get("nested"):
        raise NotCertifiedError(f"a cast to {kind.sql('spark').lower()}")
    return _WRITTEN[name]


def widened(node: Node, kind: pa.DataType) -> Node:
    """A node as a value of a type that holds all of its values.

    Raises:
        NotCertifiedError: When that is none of the casts that are certified.
    """
    if pa.types.is_null(kind):
        raise NotCertifiedError("null of no type")
    if node.type == kind:
        return node
    if isinstance(node, Literal):
        return _literal(node.value, kind)
    if is_integer(node.type) or (pa.types.is_decimal128(node.type) and kind != DOUBLE):
        return Call(kind, node.fails, _wide, (node,), (kind,))
    raise NotCertifiedError(f"{words(node.type)} as {words(kind)}")


def _literal(value: Any, kind: pa.DataType) -> Literal:
    if value is None:
        return Literal(kind, SURE, None)
    if kind == DOUBLE:
        if isinstance(value, Decimal) and len(value.as_tuple().digits) > _EXACT_DIGITS:
            raise NotCertifiedError("a decimal of so many digits as a double")
        return Literal(kind, SURE, float(value))
    if pa.types.is_decimal128(kind):
        return Literal(kind, SURE, Decimal(value))
    return Literal(kind, SURE, value)


def _wide(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal128(kind) and is_integer(values.type):
        return _integer_to_decimal(values, kind)
    return pc.cast(values, kind, safe=False) if kind == DOUBLE else values.cast(kind)


def _integer_to_decimal(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow wants room for all digits of the type in between."""
    whole = values.cast(pa.int64()).cast(pa.decimal128(DECIMAL_DIGITS_MAX - kind.scale, 0))
    try:
        return whole.cast(pa.decimal128(DECIMAL_DIGITS_MAX, kind.scale)).cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError("NUMERIC_VALUE_OUT_OF_RANGE") from error


@certified(
    _FAMILY,
    "`cast(a AS byte / short / int / long)`",
    "byte, short, int, long, double, boolean, string",
    "TryCast",
    "Cast",
)
@certified(_FAMILY, "`cast(a AS double)`", "byte, short, int, long", "TryCast", "Cast")
@certified(_FAMILY, "`cast(a AS string)`", "byte, short, int, long, boolean", "TryCast", "Cast")
@certified(_FAMILY, "`cast(a AS boolean)`", "byte, short, int, long", "TryCast", "Cast")
@certified(
    _FAMILY,
    "`cast(a AS decimal(p, s))`",
    "byte, short, int, long, where s is 18 at most; decimal of 37 digits at most, where 38 are "
    "enough on the way",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS date)`, `DATE '2024-02-29'`",
    "timestamp, timestamp_ntz; a literal of that form",
    "TryCast",
    "Cast",
)
def _cast(reading: Reading, e: Any) -> Node:
    kind = written_type(e.args["to"])
    return cast(reading.node(e.this), kind)


def cast(value: Node, kind: pa.DataType) -> Node:
    """A cast as users write it.

    Raises:
        NotCertifiedError: When it is not certified.
    """
    if pa.types.is_null(value.type):
        return Literal(kind, SURE, None)
    if value.type == kind:
        return value
    if isinstance(value, Literal) and _fits(value, kind):
        return widened(value, kind)
    if is_integer(value.type):
        found = _of_integer(value, kind)
    elif kind in INTEGERS and value.type in (DOUBLE, pa.bool_(), pa.string()):
        found = Call(kind, value.fails or value.type != pa.bool_(), _to_integer, (value,), (kind,))
    else:
        found = _of_others(value, kind)
    if found is None:
        raise NotCertifiedError(f"a cast of {words(value.type)} to {words(kind)}")
    return found


def _of_integer(value: Node, kind: pa.DataType) -> Node | None:
    if kind in INTEGERS:
        narrower = kind.bit_width < value.type.bit_width
        return Call(kind, value.fails or narrower, _to_integer, (value,), (kind,))
    if kind == DOUBLE:
        return widened(value, DOUBLE)
    if kind == pa.string():
        return Call(kind, value.fails, _to_text, (value,))
    if kind == pa.bool_():
        return Call(kind, value.fails, _to_boolean, (value,))
    if pa.types.is_decimal128(kind) and kind.scale <= _SCALE_MAX:
        return Call(kind, MAY_FAIL, _integer_to_decimal, (value,), (kind,))
    return None


def _of_others(value: Node, kind: pa.DataType) -> Node | None:
    given = value.type
    if kind == pa.string() and given == pa.bool_():
        return Call(kind, value.fails, _to_text, (value,))
    if pa.types.is_decimal128(kind) and pa.types.is_decimal128(given):
        return _between_decimals(value, given, kind)
    if kind == DATE and isinstance(value, Literal) and given == pa.string():
        return _date_literal(value.value)
    if kind == DATE and given in (INSTANT, pa.timestamp("us")):
        return Call(kind, value.fails, _to_date, (value,))
    return None


def _fits(value: Literal, kind: pa.DataType) -> bool:
    """Whether a number that was written is cast without loss."""
    if is_integer(value.type) and kind in INTEGERS:
        return bool(abs(value.value) < 2 ** (kind.bit_width - 1))
    return kind == DOUBLE and (is_integer(value.type) or pa.types.is_decimal128(value.type))


def _to_integer(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(values.type):
        return _parsed(values, kind)
    if values.type == DOUBLE:
        return _truncated(values, kind)
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError("CAST_OVERFLOW") from error


def _parsed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    bare = pc.ascii_trim(values, characters=_TRIMMED)
    if pc.all(pc.match_substring_regex(bare, _NUMBER)).as_py() is False:
        raise _no_number(values, kind)
    plain = pc.replace_substring_regex(bare, r"^(?:\+|(-)?)0*([0-9])", r"\1\2")
    try:
        return plain.cast(kind)
    except pa.ArrowInvalid:
        raise _no_number(values, kind) from None


def _no_number(values: pa.Array, kind: pa.DataType) -> RowError:
    text = f"The value {values[0].as_py()!r} is no {words(kind)}" if len(values) == 1 else ""
    return RowError("CAST_INVALID_INPUT", text)


def _truncated(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Towards zero; the largest long is 2^63 as a double, which Spark takes for it."""
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    limits = np.iinfo(kind.to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        fits = (np.floor(numbers) <= limits.max) & (np.ceil(numbers) >= limits.min)
        if not fits.all():
            raise RowError("CAST_OVERFLOW")
        whole = np.trunc(numbers)
        at_top = whole >= float(limits.max)
        found = np.where(at_top, 0.0, whole).astype(limits.dtype)
    found[at_top] = limits.max
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(found, kind, mask=nulls)


def _to_text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _to_boolean(values: pa.Array) -> pa.Array:
    return pc.not_equal(values, pa.scalar(0, values.type))


def _between_decimals(value: Node, given: pa.DataType, kind: pa.DataType) -> Node:
    whole = given.precision - given.scale
    if (
        given.precision >= DECIMAL_DIGITS_MAX
        or whole + max(given.scale, kind.scale) + 1 > DECIMAL_DIGITS_MAX
    ):
        raise NotCertifiedError(f"a cast of {words(given)} to {words(kind)}")
    fails = whole + (kind.scale < given.scale) > kind.precision - kind.scale
    return Call(kind, value.fails or fails, _rescaled, (value,), (kind,))


def _rescaled(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Half of a digit is rounded away from zero."""
    given = values.type
    wide = values.cast(pa.decimal128(DECIMAL_DIGITS_MAX, given.scale))
    if kind.scale < given.scale:
        wide = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
    try:
        return wide.cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError("NUMERIC_VALUE_OUT_OF_RANGE") from error


def _date_literal(text: str) -> Node:
    import datetime as dt

    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise NotCertifiedError(f"a cast of {text!r} to date")
    try:
        return Literal(DATE, SURE, dt.date.fromisoformat(text))
    except ValueError:
        raise NotCertifiedError(f"the date {text!r}") from None


def _to_date(values: pa.Array) -> pa.Array:
    """The day in UTC, or in no time zone."""
    days = pc.floor_temporal(values.cast(pa.timestamp("us")), unit="day")
    return days.cast(DATE)
