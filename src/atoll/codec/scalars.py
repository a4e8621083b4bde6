"""Which Python value fits which scalar: the one place that decides, for keys and values alike.

A misfit is refused here, before any byte is written, with the value and the kind by name.
What passes comes back in its canonical form (an ``int`` given for a ``float`` as a float, an
instant in UTC), so that two equal values can never be stored as different bytes.
"""

from __future__ import annotations

import datetime as dt
import reprlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from atoll.errors import StateError
from atoll.schema import Scalar

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)

MICROSECONDS_MIN = (dt.datetime.min.replace(tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
MICROSECONDS_MAX = (dt.datetime.max.replace(tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
DAYS_MIN = dt.date.min.toordinal() - _EPOCH_ORDINAL
DAYS_MAX = dt.date.max.toordinal() - _EPOCH_ORDINAL

_DECIMAL_SCALE = 18
_DECIMAL_DIGITS_MAX = 38
_DIGITS_READ_MAX = 4_000
"""Of more, Python makes no int, not even where all but a few are zeros."""


def misfit(value: object, scalar: Scalar, *, hint: str | None = None) -> StateError:
    """The error for a value that the scalar cannot hold; the caller raises it."""
    kind = str(scalar)
    return StateError(
        f"a value of type {type(value).__name__} does not fit {kind}",
        hint=hint or f"give a value of type {kind}",
        value=reprlib.repr(value),
        kind=kind,
    )


def fit(value: object, scalar: Scalar) -> Any:
    """The value in the scalar's canonical form.

    Raises:
        StateError: When the value does not fit, or is None and the scalar is not optional.
    """
    if value is None:
        if scalar.optional:
            return None
        raise misfit(value, scalar, hint="declare the type as X | None to allow None")
    return _FITS[scalar.kind](value, scalar)


def _fit_bool(value: object, scalar: Scalar) -> bool:
    if isinstance(value, bool):
        return value
    raise misfit(value, scalar)


def _fit_int(value: object, scalar: Scalar) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise misfit(value, scalar)


def _fit_float(value: object, scalar: Scalar) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise misfit(value, scalar, hint="the int is too large for a float") from None
    raise misfit(value, scalar)


def _fit_str(value: object, scalar: Scalar) -> str:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise misfit(value, scalar, hint="the text has surrogates; give valid text") from None
        return value
    if isinstance(value, uuid.UUID):
        return str(value)
    raise misfit(value, scalar)


def _fit_bytes(value: object, scalar: Scalar) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise misfit(value, scalar)


def _fit_date(value: object, scalar: Scalar) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise misfit(value, scalar)


def _fit_datetime(value: object, scalar: Scalar) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise misfit(value, scalar)
    if value.utcoffset() is None:
        raise misfit(value, scalar, hint="give an aware datetime: tzinfo=datetime.UTC")
    try:
        return value.astimezone(dt.UTC)
    except OverflowError:
        raise misfit(value, scalar, hint="in UTC the year must be 1 to 9999") from None


def _fit_decimal(value: object, scalar: Scalar) -> Decimal:
    if isinstance(value, Decimal) and value.is_finite():
        return value
    raise misfit(value, scalar, hint="give a finite Decimal")


def _fit_tuple(value: object, scalar: Scalar) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise misfit(value, scalar)
    if len(value) != len(scalar.items):
        raise misfit(value, scalar, hint=f"give {len(scalar.items)} members, not {len(value)}")
    return tuple(fit(member, item) for member, item in zip(value, scalar.items, strict=True))


_FITS: dict[str, Callable[[object, Scalar], Any]] = {
    "bool": _fit_bool,
    "int": _fit_int,
    "float": _fit_float,
    "str": _fit_str,
    "bytes": _fit_bytes,
    "date": _fit_date,
    "datetime": _fit_datetime,
    "decimal": _fit_decimal,
    "tuple": _fit_tuple,
}


def plain_of(value: object, scalar: Scalar) -> Any:
    """The plain form of a value of any kind but ``tuple``: what stored values hold of it.

    Days for a date, microseconds for an instant, units of 10**-18 for a decimal, 0 or 1 for a
    bool; the others as they are.

    Raises:
        StateError: When the value does not fit, an int has more than 64 bits (keys may), or a
            decimal has more than 18 digits after the point or 20 before it.
    """
    checked = fit(value, scalar)
    convert = _PLAIN_FORMS.get(scalar.kind)
    return checked if convert is None or checked is None else convert(checked, scalar)


def value_of(plain: Any, kind: str) -> Any:
    """The value from its plain form, see :func:`plain_of`."""
    convert = _FROM_PLAIN.get(kind)
    return plain if convert is None or plain is None else convert(plain)


def from_plain(kind: str) -> Callable[[Any], Any] | None:
    """What makes a value of its plain form; None where that is the value."""
    return _FROM_PLAIN.get(kind)


def days_of(value: dt.date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_ORDINAL


def date_of(days: int) -> dt.date:
    """The date that many days after 1970-01-01."""
    return dt.date.fromordinal(days + _EPOCH_ORDINAL)


def microseconds_of(value: dt.datetime) -> int:
    """Microseconds since 1970-01-01T00:00:00Z of an aware datetime."""
    return (value - _EPOCH) // _MICROSECOND


def datetime_of(microseconds: int) -> dt.datetime:
    """The instant that many microseconds after 1970-01-01T00:00:00Z, in UTC."""
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def _units_of(value: Decimal, scalar: Scalar) -> int:
    """The decimal as its number of 10**-18 units, which must be whole and of 38 digits."""
    sign, digits, exponent = value.as_tuple()
    if len(digits) > _DIGITS_READ_MAX:
        raise _too_wide(value, scalar)
    number = int("".join(map(str, digits)) or "0")
    shift = int(exponent) + _DECIMAL_SCALE
    if number and shift > _DECIMAL_DIGITS_MAX:
        raise _too_wide(value, scalar)
    units: int
    if shift < 0:
        units, rest = divmod(number, 10 ** min(-shift, len(digits)))
        if rest or (number and -shift > len(digits)):
            raise _too_wide(value, scalar)
    else:
        units = number * 10**shift if number else 0
    if units >= 10**_DECIMAL_DIGITS_MAX:
        raise _too_wide(value, scalar)
    return -units if sign else units


def _too_wide(value: Decimal, scalar: Scalar) -> StateError:
    return misfit(
        value, scalar, hint="a stored decimal has up to 20 digits before the point and 18 after"
    )


def decimal_of(units: int) -> Decimal:
    """The decimal of that many 10**-18 units, without trailing zeros."""
    return plain_decimal(int(units < 0), str(abs(units)), -_DECIMAL_SCALE)


def plain_decimal(sign: int, digits: str, exponent: int) -> Decimal:
    """The decimal ``digits * 10**exponent``, negative where the sign is 1.

    It has no trailing zeros after the point.

    Integers of up to 38 digits come out as such (``1000``, not ``1E+3``).
    """
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    if not stripped:
        return Decimal(0)
    if 0 < exponent <= _DECIMAL_DIGITS_MAX - len(stripped):
        stripped, exponent = stripped + "0" * exponent, 0
    return Decimal((sign, tuple(map(int, stripped)), exponent))


def _int64(value: int, scalar: Scalar) -> int:
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise misfit(value, scalar, hint="a stored int has 64 bits; use Decimal, float or str")


_PLAIN_FORMS: dict[str, Callable[[Any, Scalar], Any]] = {
    "bool": lambda value, _: int(value),
    "int": _int64,
    "date": lambda value, _: days_of(value),
    "datetime": lambda value, _: microseconds_of(value),
    "decimal": _units_of,
}

_FROM_PLAIN: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "date": date_of,
    "datetime": datetime_of,
    "decimal": decimal_of,
}
