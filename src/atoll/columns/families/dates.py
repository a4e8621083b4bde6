"""Dates and times moved by days, months and intervals, and the days between them.

The calendar is the proleptic Gregorian one, as Spark's is; days are those of UTC.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.columns.calendar import (
    DAY_MICROS,
    day_of,
    days_of,
    first_day,
    micros_of,
    months_later,
    to_dates,
)
from atoll.columns.forms import Reading, arguments, certified
from atoll.columns.tree import MAY_FAIL, Call, Literal, Node, RowError, any_fails
from atoll.columns.types import DATE, INTEGERS, TIMES, NotCertifiedError, words

_FAMILY = "Dates and times"
SHIFTED = (
    _FAMILY,
    "`d + 3`, `d - 3`, `t + INTERVAL '3' MONTH`, `t - INTERVAL 90 DAYS`",
    "date with byte, short, int; date, timestamp, timestamp_ntz with a written interval of a unit",
)
_MONTHS = {"YEAR": 12, "MONTH": 1}
_MICROS = {"DAY": DAY_MICROS, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_AMOUNT = re.compile(r"-?\d{1,6}\Z", re.ASCII)
_INT = np.iinfo(np.int32)


def shifted(reading: Reading, e: Any) -> Node | None:
    """A sum or difference of a date or time and days or an interval; None where it is of others.

    Raises:
        NotCertifiedError: When it is one that is not certified.
    """
    left, right, sign = e.this, e.expression, 1 if type(e).__name__ == "Add" else -1
    if sign > 0 and type(left).__name__ == "Interval":
        left, right = right, left
    if type(right).__name__ == "Interval":
        months, micros = _interval(right)
        return _moved(reading.node(left), sign * months, sign * micros)
    pair = [reading.node(left), reading.node(right)]
    if sign > 0 and pair[1].type == DATE:
        pair.reverse()
    if pair[0].type != DATE or pair[1].type not in INTEGERS:
        return None
    return _days_later(pair[0], pair[1], sign)


def _interval(e: Any) -> tuple[int, int]:
    """Its months and microseconds."""
    unit = (getattr(e.args.get("unit"), "name", "") or "").upper().removesuffix("S")
    amount = getattr(e.this, "name", "")
    if type(e.this).__name__ != "Literal" or not _AMOUNT.match(amount):
        raise NotCertifiedError("an interval other than a number of one unit")
    if unit in _MONTHS:
        return int(amount) * _MONTHS[unit], 0
    if unit in _MICROS:
        return 0, int(amount) * _MICROS[unit]
    raise NotCertifiedError(f"an interval of {unit.lower() or 'several'} units")


def _moved(value: Node, months: int, micros: int) -> Node:
    if value.type == DATE:
        if micros % DAY_MICROS:
            raise NotCertifiedError("a date and an interval of less than a day")
        if micros or not months:
            days = Literal(pa.int32(), False, micros // DAY_MICROS)  # noqa: FBT003 - it cannot fail
            return _days_later(value, days, 1)
        return Call(DATE, MAY_FAIL, _months_later, (value,), (months,))
    if value.type not in TIMES:
        raise NotCertifiedError(f"an interval beside {words(value.type)}")
    if months:
        return Call(value.type, MAY_FAIL, _months_later_at, (value,), (months,))
    return Call(value.type, MAY_FAIL, _micros_later, (value,), (micros,))


def _days_later(value: Node, days: Node, sign: int) -> Node:
    if days.type == pa.int64():
        raise NotCertifiedError("a date and a number of days of type long")
    return Call(DATE, any_fails((value, days)), _with_days, (value, days), (sign,))


def _with_days(dates: pa.Array, days: pa.Array, sign: int) -> pa.Array:
    nulls = np.asarray(dates.is_null()) | np.asarray(days.is_null())
    more = np.asarray(days.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    return to_dates(days_of(dates) + sign * more, nulls)


def _months_later(dates: pa.Array, months: int) -> pa.Array:
    return _checked_dates(months_later(days_of(dates), months), np.asarray(dates.is_null()))


def _checked_dates(days: NDArray[np.int64], nulls: NDArray[np.bool_]) -> pa.Array:
    if ((days > _INT.max) | (days < _INT.min))[~nulls].any():
        raise RowError("DATETIME_OVERFLOW")
    return to_dates(days, nulls)


def _months_later_at(times: pa.Array, months: int) -> pa.Array:
    micros = micros_of(times)
    days = day_of(micros)
    later = months_later(days, months)
    limit = np.iinfo(np.int64).max // DAY_MICROS
    nulls = np.asarray(times.is_null())
    if (np.abs(later) >= limit)[~nulls].any():
        raise RowError("DATETIME_OVERFLOW")
    found = later * DAY_MICROS + (micros - days * DAY_MICROS)
    return pa.array(found, pa.int64(), mask=nulls).cast(times.type)


def _micros_later(times: pa.Array, micros: int) -> pa.Array:
    from atoll.columns.families.arithmetic import checked

    more = pa.scalar(micros, pa.int64())
    found = checked("add_checked", times.cast(pa.int64()), more, condition="DATETIME_OVERFLOW")
    return found.cast(times.type)


def _day(reading: Reading, e: Any) -> Node:
    """A date, or the date of a moment."""
    from atoll.columns.families.casts import cast

    node = reading.node(e)
    if node.type not in (DATE, *TIMES):
        raise NotCertifiedError(f"a date function of {words(node.type)}")
    return cast(node, DATE)


_DAYS = "date, timestamp, timestamp_ntz"


@certified(
    _FAMILY,
    "`date_add(d, 3)`, `dateadd(d, 3)`, `date_sub(d, 3)`",
    f"{_DAYS}; byte, short, int, of date_sub a literal",
    "TsOrDsAdd",
)
def _add_days(reading: Reading, e: Any) -> Node:
    if getattr(e.args.get("unit"), "name", "") != "DAY":
        raise NotCertifiedError("a sum of a date and other than days")
    given, sign = e.expression, 1
    if type(given).__name__ == "Mul" and type(given.expression).__name__ == "Neg":
        given, sign = given.this, -1  # so sqlglot writes date_sub
        if not isinstance(reading.node(given), Literal):
            raise NotCertifiedError("date_sub by a number that is no literal")
        if e.expression.expression.this.name != "1":
            raise NotCertifiedError("date_add by a product")
    days = reading.node(given)
    if days.type not in INTEGERS:
        raise NotCertifiedError(f"a date and {words(days.type)}")
    return _days_later(_day(reading, e.this), days, sign)


@certified(_FAMILY, "`datediff(a, b)`, `date_diff(a, b)`: in days", _DAYS, "DateDiff")
def _between(reading: Reading, e: Any) -> Node:
    args = (_day(reading, e.this), _day(reading, e.expression))
    return Call(pa.int32(), any_fails(args), _difference, args)


def _difference(ends: pa.Array, starts: pa.Array) -> pa.Array:
    nulls = np.asarray(ends.is_null()) | np.asarray(starts.is_null())
    days = (days_of(ends) - days_of(starts)).astype(np.int32)
    return pa.array(days, pa.int32(), mask=nulls)


@certified(_FAMILY, "`add_months(d, 3)`", f"{_DAYS}; byte, short, int", "AddMonths")
def _add_months(reading: Reading, e: Any) -> Node:
    months = reading.node(e.expression)
    if months.type not in INTEGERS[:3]:
        raise NotCertifiedError(f"add_months by {words(months.type)}")
    args = (_day(reading, e.this), months)
    return Call(DATE, MAY_FAIL, _with_months, args)


def _with_months(dates: pa.Array, months: pa.Array) -> pa.Array:
    nulls = np.asarray(dates.is_null()) | np.asarray(months.is_null())
    more = np.asarray(months.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    return _checked_dates(months_later(days_of(dates), more), nulls)


@certified(_FAMILY, "`last_day(d)`", _DAYS, "LastDay")
def _last_day(reading: Reading, e: Any) -> Node:
    value = _day(reading, e.this)
    return Call(DATE, value.fails, _month_end, (value,))


def _month_end(dates: pa.Array) -> pa.Array:
    month = days_of(dates).astype("M8[D]").astype("M8[M]").astype(np.int64)
    return to_dates(first_day(month + 1) - 1, dates.is_null())


@certified(_FAMILY, "`make_date(y, m, d)`", "byte, short, int", "make_date")
def _make_date(reading: Reading, e: Any) -> Node:
    given = [reading.node(each) for each in arguments(e, 3)]
    if any(each.type not in INTEGERS[:3] for each in given):
        raise NotCertifiedError("make_date of other than ints")
    args = tuple(reading.to(each, pa.int32()) for each in given)
    return Call(DATE, MAY_FAIL, _made, args)


_YEARS_MAX = 5_000_000
"""Beyond, there are no dates."""


def _made(years: pa.Array, months: pa.Array, days: pa.Array) -> pa.Array:
    given = (years, months, days)
    nulls = np.logical_or.reduce([np.asarray(each.is_null()) for each in given])
    year, month, day = (
        np.asarray(each.fill_null(1).to_numpy(zero_copy_only=False), np.int64) for each in given
    )
    known = (np.abs(year) < _YEARS_MAX) & (month >= 1) & (month <= 12)  # noqa: PLR2004 - months
    number = np.where(known, (year - 1970) * 12 + month - 1, 0)
    first = first_day(number)
    fits = known & (day >= 1) & (day <= first_day(number + 1) - first)
    if not fits[~nulls].all():
        raise RowError("DATETIME_FIELD_OUT_OF_BOUNDS")
    return _checked_dates(np.where(nulls, 0, first + day - 1), nulls)
