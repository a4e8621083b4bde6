"""Texts as numbers, truths and dates, by the rules of the Java that Spark is written in."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.calendar import first_day
from atoll.columns.decimals import OUT_OF_RANGE
from atoll.columns.tree import RowError
from atoll.columns.types import DATE, DECIMAL_DIGITS_MAX, DOUBLE, INTEGERS, words

_INVALID = "CAST_INVALID_INPUT"
_TRIMMED = "".join(map(chr, [*range(0x21), 0x7F]))
"""What Spark leaves out around a value: spaces and control characters of ASCII."""
_TRIMMED_BY_JAVA = "".join(map(chr, range(0x21)))
_WHOLE = r"^[+-]?[0-9]+$"
_DOUBLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?", re.ASCII)
_HEX = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII
)
_NAMED = {"NaN", "+NaN", "-NaN", "Infinity", "+Infinity", "-Infinity"}
_NAMED_LOWER = {"inf", "+inf", "infinity", "+infinity", "-inf", "-infinity", "nan"}
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_EXPONENT_MAX = 10_000
"""Beyond, a number does not fit, or is 0."""
_BMP_LAST = "\uffff"
_DATE = re.compile(
    r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL
)
_TRUTHS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_INT = np.iinfo(np.int32)


def parsed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type.

    Raises:
        RowError: When a text is none.
    """
    if kind in INTEGERS:
        return _integers(texts, kind)
    if kind == pa.bool_():
        return _truths(texts)
    if kind == DATE:
        return pa.array(_each(texts, _day, kind), pa.int32()).cast(DATE)
    if kind == DOUBLE:
        return pa.array(_each(texts, _double, kind), DOUBLE)
    try:
        return pa.array(_each(texts, _decimal(kind.scale), kind), kind)
    except pa.ArrowInvalid as error:
        raise RowError(OUT_OF_RANGE) from error


def _each(texts: pa.Array, parse: Callable[[str], Any], kind: pa.DataType) -> list[Any]:
    """Each text parsed; those that come again once."""
    known: dict[str | None, Any] = {None: None}
    given = texts.to_pylist()
    for text in given:
        if text not in known:
            value = parse(text)
            if value is None:
                raise _invalid(text, kind)
            known[text] = value
    return [known[text] for text in given]


def _invalid(text: str, kind: pa.DataType) -> RowError:
    return RowError(_INVALID, f"The value {text!r} is no {words(kind)}")


def _integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    bare = pc.ascii_trim(texts, characters=_TRIMMED)
    if pc.all(pc.match_substring_regex(bare, _WHOLE)).as_py() is False:
        raise _no_integer(texts, kind)
    plain = pc.replace_substring_regex(bare, r"^(?:\+|(-)?)0*([0-9])", r"\1\2")
    try:
        return plain.cast(kind)
    except pa.ArrowInvalid:
        raise _no_integer(texts, kind) from None


def _no_integer(texts: pa.Array, kind: pa.DataType) -> RowError:
    return _invalid(texts[0].as_py(), kind) if len(texts) == 1 else RowError(_INVALID)


def _truths(texts: pa.Array) -> pa.Array:
    bare = pc.ascii_lower(pc.ascii_trim(texts, characters=_TRIMMED)).to_pylist()
    found = [None if each is None else _TRUTHS.get(each) for each in bare]
    if found.count(None) > texts.null_count:
        raise _no_integer(texts, pa.bool_())
    return pa.array(found, pa.bool_())


def _double(text: str) -> float | None:
    """As ``Double.parseDouble`` does, and Spark beyond it."""
    bare = text.strip(_TRIMMED_BY_JAVA)
    if _DOUBLE.fullmatch(bare):
        return float(bare.rstrip("fFdD"))
    if bare in _NAMED or bare.lower() in _NAMED_LOWER:
        return float(bare.lower().replace("-nan", "nan"))
    found = _HEX.fullmatch(bare)
    if found is None:
        return None
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return float("-inf" if bare.startswith("-") else "inf")


def _decimal(scale: int) -> Callable[[str], Decimal | None]:
    """As ``new BigDecimal(text)`` does, with half a digit rounded away from zero."""
    kept = Decimal(1).scaleb(-scale)
    context = Context(prec=100_000, rounding=ROUND_HALF_UP)

    def parse(text: str) -> Decimal | None:
        bare = text.strip(_TRIMMED_BY_JAVA)
        found = _DECIMAL.fullmatch(bare)
        if found is None or max(bare) > _BMP_LAST:
            return None
        if found[1] is not None and abs(int(found[1])) > _EXPONENT_MAX:
            return None
        value = Decimal(bare)
        if value.adjusted() >= DECIMAL_DIGITS_MAX and value:
            raise RowError(OUT_OF_RANGE)
        return context.quantize(value, kept)

    return parse


def _day(text: str) -> int | None:
    """The days since 1970 of ``[+-]yyyy[-m[-d[ ...]]]``."""
    found = _DATE.fullmatch(text.strip(_TRIMMED))
    if found is None:
        return None
    sign, digits, month, day = found[1], int(found[2]), int(found[3] or 1), int(found[4] or 1)
    if not 1 <= month <= 12:  # noqa: PLR2004 - months
        return None
    year = -digits if sign == "-" else digits
    first, after = first_day(np.array([0, 1]) + (year - 1970) * 12 + month - 1).tolist()
    days = int(first + day - 1)
    return days if 1 <= day <= after - first and _INT.min <= days <= _INT.max else None
