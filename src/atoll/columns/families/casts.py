"""Casts: those that Spark makes by itself, and those that users write.

Left to Spark: a float or double as a text or a decimal, which depends on how the Java under Spark
writes it; texts as floats and as moments.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.calendar import DAY_MICROS, day_of, micros_of, to_dates
from atoll.columns.decimals import WIDE_DIGITS_MAX, rescaled, to_double
from atoll.columns.forms import Reading, certified
from atoll.columns.parsing import parsed
from atoll.columns.tree import MAY_FAIL, SURE, Call, Literal, Node, RowError
from atoll.columns.types import (
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    FLOAT,
    INSTANT,
    INTEGERS,
    TIMES,
    NotCertifiedError,
    as_decimal,
    is_decimal,
    is_floating,
    is_integer,
    words,
)
from atoll.columns.writing import written

_FAMILY = "Casts"
_WRITTEN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "DATE": DATE,
    "TIMESTAMPTZ": INSTANT,
    "TIMESTAMP": INSTANT,
    "TIMESTAMPNTZ": TIMES[1],
}
_WHOLE = "byte, short, int, long"


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
    """A node as a value of a type to which Spark brings it by itself.

    Raises:
        NotCertifiedError: When that is none of the casts that are certified.
    """
    if pa.types.is_null(kind):
        raise NotCertifiedError("null of no type")
    if node.type == kind:
        return node
    if isinstance(node, Literal):
        return _literal(node.value, kind)
    number = is_integer(node.type) or is_decimal(node.type) or node.type == FLOAT
    if number or node.type in (DATE, *TIMES):
        found = _converted(node, kind)
        if found is not None:
            return found
    raise NotCertifiedError(f"{words(node.type)} as {words(kind)}")


def _literal(value: Any, kind: pa.DataType) -> Literal:
    if value is None:
        return Literal(kind, SURE, None)
    if is_floating(kind):
        return Literal(kind, SURE, float(value))
    if is_decimal(kind):
        return Literal(kind, SURE, Decimal(value))
    if kind in TIMES and type(value) is dt.date:
        zone = dt.UTC if kind == INSTANT else None
        return Literal(kind, SURE, dt.datetime.combine(value, dt.time(), zone))
    return Literal(kind, SURE, value)


@certified(
    _FAMILY,
    "`cast(a AS byte / short / int / long)`",
    f"{_WHOLE}, float, double, decimal, boolean, string; timestamp",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS double)`, `cast(a AS float)`",
    f"{_WHOLE}, float, double, boolean; as double also decimal, string, timestamp",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS string)`",
    f"{_WHOLE}, decimal, boolean, date, timestamp, timestamp_ntz",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS boolean)`",
    f"{_WHOLE}, float, double, decimal, string",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS decimal(p, s))`",
    f"{_WHOLE}, decimal, string",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS date)`, `DATE '2024-02-29'`",
    "timestamp, timestamp_ntz, string; a literal of that form",
    "TryCast",
    "Cast",
)
@certified(
    _FAMILY,
    "`cast(a AS timestamp)`, `cast(a AS timestamp_ntz)`",
    f"date, timestamp, timestamp_ntz; as timestamp also {_WHOLE}",
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
    if isinstance(value, Literal):
        if _fits(value, kind):
            return widened(value, kind)
        if kind == DATE and value.type == pa.string():
            return _date_literal(value.value)
    found = _converted(value, kind)
    if found is None:
        raise NotCertifiedError(f"a cast of {words(value.type)} to {words(kind)}")
    return found


def _fits(value: Literal, kind: pa.DataType) -> bool:
    """Whether a number that was written is cast without loss."""
    if is_integer(value.type) and kind in INTEGERS:
        return bool(abs(value.value) < 2 ** (kind.bit_width - 1))
    return kind == DOUBLE and (is_integer(value.type) or is_decimal(value.type))


def _converted(value: Node, kind: pa.DataType) -> Node | None:
    """A cast; None where it is not certified."""
    given = value.type
    if is_decimal(kind):
        return _as_decimal(value, kind)
    for sources, kinds, kernel, fails in _CASTS:
        if _among(given, sources) and kind in kinds:
            narrows = fails is None and _narrows(given, kind)
            return Call(kind, value.fails or bool(fails) or narrows, kernel, (value,), (kind,))
    return None


def _narrows(given: pa.DataType, kind: pa.DataType) -> bool:
    return bool(given in INTEGERS and kind in INTEGERS and kind.bit_width < given.bit_width)


def _among(kind: pa.DataType, sources: tuple[Any, ...]) -> bool:
    return kind in sources or (_DECIMAL in sources and is_decimal(kind))


def _as_decimal(value: Node, kind: pa.DataType) -> Node | None:
    given = value.type
    if given == pa.string():
        return Call(kind, MAY_FAIL, parsed, (value,), (kind,))
    if not is_integer(given) and not is_decimal(given):
        return None
    wide = as_decimal(given)
    if wide.precision + max(kind.scale - wide.scale, 0) + 1 > WIDE_DIGITS_MAX:
        return None
    whole = wide.precision - wide.scale
    narrows = whole + (kind.scale < wide.scale) > kind.precision - kind.scale
    return Call(kind, value.fails or narrows, _decimals, (value,), (kind,))


def _decimals(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if is_integer(values.type):  # Arrow wants room for all digits of the type in between
        values = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return rescaled(values, kind)


# Kernels --------------------------------------------------------------------------------------


def _between_integers(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError("CAST_OVERFLOW") from error


def _loosely(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.cast(values, kind, safe=False)


def _to_floats(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The nearest one."""
    nulls = np.asarray(values.is_null())
    with np.errstate(over="ignore"):
        numbers = values.fill_null(pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)
        return pa.array(numbers.astype(kind.to_pandas_dtype()), kind, mask=nulls)


def _truths_to_numbers(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(pa.int8()).cast(kind)


def _truncated(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Towards zero; the largest long is 2^63 as a double, which Spark takes for it."""
    numbers = values.cast(DOUBLE).fill_null(0.0).to_numpy(zero_copy_only=False)
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


def _decimals_truncated(values: pa.Array, kind: pa.DataType) -> pa.Array:
    whole = pc.round(values, ndigits=0, round_mode="towards_zero")
    try:
        return rescaled(whole, pa.decimal128(DECIMAL_DIGITS_MAX, 0)).cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError("CAST_OVERFLOW") from error


def _decimals_to_doubles(values: pa.Array, kind: pa.DataType) -> pa.Array:  # noqa: ARG001 - a kernel's
    return to_double(values)


def _not_zero(values: pa.Array, kind: pa.DataType) -> pa.Array:  # noqa: ARG001 - a kernel's
    return pc.not_equal(values, pa.scalar(0, values.type))


def _to_text(values: pa.Array, kind: pa.DataType) -> pa.Array:  # noqa: ARG001 - a kernel's
    return written(values)


def _to_date(values: pa.Array, kind: pa.DataType) -> pa.Array:  # noqa: ARG001 - a kernel's
    """The day in UTC, or in no time zone."""
    return to_dates(day_of(micros_of(values)), values.is_null())


def _midnight(dates: pa.Array, kind: pa.DataType) -> pa.Array:
    days = dates.cast(pa.int32()).cast(pa.int64())
    try:
        return pc.multiply_checked(days, pa.scalar(DAY_MICROS, pa.int64())).cast(kind)
    except pa.ArrowInvalid as error:
        raise RowError("DATETIME_OVERFLOW") from error


def _seconds_to_moment(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Where there is no such moment the last or the first one, as Spark has it."""
    given = values.cast(pa.int64())
    limits = np.iinfo(np.int64)
    seconds = given.fill_null(0).to_numpy(zero_copy_only=False)
    last = limits.max // 1_000_000
    micros = np.clip(seconds, -last, last) * 1_000_000
    micros = np.where(seconds > last, limits.max, np.where(seconds < -last, limits.min, micros))
    return pa.array(micros, mask=np.asarray(values.is_null())).cast(kind)


def _same_clock(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(pa.int64()).cast(kind)


def _moment_to_seconds(values: pa.Array, kind: pa.DataType) -> pa.Array:
    seconds = pa.array(micros_of(values) // 1_000_000, mask=np.asarray(values.is_null()))
    return _between_integers(seconds, kind)


def _moment_to_doubles(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.array(micros_of(values) / 1e6, kind, mask=np.asarray(values.is_null()))


_DECIMAL = "decimal"
_TEXT = pa.string()
_CASTS: tuple[tuple[tuple[Any, ...], tuple[pa.DataType, ...], Any, bool | None], ...] = (
    (INTEGERS, INTEGERS, _between_integers, None),
    (INTEGERS, (DOUBLE, FLOAT), _to_floats, SURE),
    ((FLOAT,), (DOUBLE,), _loosely, SURE),
    ((DOUBLE,), (FLOAT,), _to_floats, SURE),
    ((FLOAT, DOUBLE), INTEGERS, _truncated, MAY_FAIL),
    ((_DECIMAL,), INTEGERS, _decimals_truncated, MAY_FAIL),
    ((_DECIMAL,), (DOUBLE,), _decimals_to_doubles, SURE),
    ((pa.bool_(),), (*INTEGERS, FLOAT, DOUBLE), _truths_to_numbers, SURE),
    ((*INTEGERS, FLOAT, DOUBLE, _DECIMAL), (pa.bool_(),), _not_zero, SURE),
    ((*INTEGERS, pa.bool_(), _DECIMAL, DATE, *TIMES), (_TEXT,), _to_text, SURE),
    ((_TEXT,), (*INTEGERS, DOUBLE, pa.bool_(), DATE), parsed, MAY_FAIL),
    (TIMES, (DATE,), _to_date, SURE),
    ((DATE,), TIMES, _midnight, MAY_FAIL),
    (TIMES, TIMES, _same_clock, SURE),
    (INTEGERS, (INSTANT,), _seconds_to_moment, SURE),
    ((INSTANT,), INTEGERS, _moment_to_seconds, MAY_FAIL),
    ((INSTANT,), (DOUBLE,), _moment_to_doubles, SURE),
)
"""Of which types, to which, by what, and whether it can fail; None: where it narrows."""


def _date_literal(text: str) -> Node:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise NotCertifiedError(f"a cast of {text!r} to date")
    try:
        return Literal(DATE, SURE, dt.date.fromisoformat(text))
    except ValueError:
        raise NotCertifiedError(f"the date {text!r}") from None
