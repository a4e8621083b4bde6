"""Parts of dates and times, and what is before them; instants are read in UTC."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.calendar import (
    DAY_MICROS,
    MONTHS,
    calendar,
    clock,
    day_of,
    days_of,
    first_days,
    micros_of,
    to_dates,
    year_texts,
)
from atoll.columns.families.casts import cast
from atoll.columns.forms import Reading, arguments, certified
from atoll.columns.tree import MAY_FAIL, Call, Node, RowError
from atoll.columns.types import DATE, INSTANT, INTEGERS, TIMES, NotCertifiedError, words

_FAMILY = "Dates and times"
_MOMENTS = "timestamp, timestamp_ntz"
_DAYS = f"date, {_MOMENTS}"
_CLOCK = ("hour", "minute", "second")
_CALENDAR = ("year", "month", "day", "quarter", "weekofyear", "dayofyear", "dayofweek")
_SAME = {"dayofmonth": "day", "week": "weekofyear", "doy": "dayofyear", "dow": "dayofweek"}


@certified(_FAMILY, "`hour(t)`, `minute(t)`, `second(t)`", _MOMENTS, "Hour", "Minute", "Second")
def _clock(reading: Reading, e: Any) -> Node:
    return _part(reading.node(e.this), e.key)


@certified(
    _FAMILY,
    "`year(d)`, `quarter(d)`, `month(d)`, `weekofyear(d)`, `day(d)`, `dayofmonth(d)`, "
    "`dayofweek(d)`, `dayofyear(d)`",
    _DAYS,
    "Year",
    "Quarter",
    "Month",
    "Day",
    "DayOfMonth",
)
@certified(_FAMILY, "`weekday(d)`", _DAYS, "weekday")
def _calendar(reading: Reading, e: Any) -> Node:
    if e.key == "anonymous":
        (argument,) = arguments(e)
        return _part(reading.node(argument), "weekday")
    return _part(reading.node(e.this), _SAME.get(e.key, e.key))


@certified(_FAMILY, *("`dayofweek(d)`", _DAYS), "DayOfWeek", "DayOfYear", "WeekOfYear")
def _calendar_of_day(reading: Reading, e: Any) -> Node:
    """What sqlglot reads as parts of ``to_date(d)``."""
    inner = e.this.this if type(e.this).__name__ == "TsOrDsToDate" else e.this
    key = {"DayOfWeek": "dayofweek", "DayOfYear": "dayofyear", "WeekOfYear": "weekofyear"}
    return _part(reading.node(inner), key[type(e).__name__])


@certified(
    _FAMILY,
    "`extract(year FROM t)`: year, quarter, month, week, day, dow, dayofweek, doy, hour, minute",
    f"{_DAYS}; of hours and minutes no date",
    "Extract",
)
def _extract(reading: Reading, e: Any) -> Node:
    name = e.this.name.lower()
    part = _SAME.get(name, name)
    if part not in (*_CALENDAR, "hour", "minute"):
        raise NotCertifiedError(f"extract of {name}")
    return _part(reading.node(e.expression), part)


def _part(value: Node, part: str) -> Node:
    known = TIMES if part in _CLOCK else (*TIMES, DATE)
    if value.type not in known:
        raise NotCertifiedError(f"{part} of {words(value.type)}")
    kernel = _of_clock if part in _CLOCK else _of_calendar
    return Call(pa.int32(), value.fails, kernel, (value,), (part,))


def _of_clock(times: pa.Array, part: str) -> pa.Array:
    return _numbers(clock(micros_of(times), part), times)


def _of_calendar(values: pa.Array, part: str) -> pa.Array:
    days = days_of(values) if values.type == DATE else day_of(micros_of(values))
    return _numbers(calendar(days, part), values)


def _numbers(found: Any, values: pa.Array) -> pa.Array:
    return pa.array(found.astype(np.int32), mask=np.asarray(values.is_null()))


@certified(_FAMILY, "`to_date(t)`", _DAYS, "TsOrDsToDate")
def _to_date(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if value.type not in (*TIMES, DATE):
        raise NotCertifiedError(f"to_date of {words(value.type)}")
    return cast(value, DATE)


# What a moment is in --------------------------------------------------------------------------

_UNITS_OF_DATES = ("WEEK", *MONTHS)
_MICROS = {
    "DAY": DAY_MICROS,
    "DD": DAY_MICROS,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}


@certified(
    _FAMILY,
    "`trunc(d, 'month')`: year, quarter, month, week",
    f"{_DAYS}; a literal",
    "DateTrunc",
)
def _trunc(reading: Reading, e: Any) -> Node:
    unit = getattr(e.args.get("unit"), "name", "").upper()
    value = reading.node(e.this)
    if unit not in _UNITS_OF_DATES or value.type not in (DATE, *TIMES):
        raise NotCertifiedError(f"trunc of {words(value.type)} to {unit.lower()}")
    value = cast(value, DATE)
    return Call(DATE, value.fails or unit == "QUARTER", _begun, (value,), (unit,))


def _begun(dates: pa.Array, unit: str) -> pa.Array:
    days = days_of(dates)
    found = _mondays(days) if unit == "WEEK" else first_days(days, unit)
    if unit == "QUARTER" and (found < np.iinfo(np.int32).min).any():
        raise RowError("DATETIME_OVERFLOW")
    return to_dates(found, dates.is_null())


def _mondays(days: Any) -> Any:
    """As Spark counts, whose ints begin anew."""
    week_before = (days - 7).astype(np.int32)
    rest = np.fmod(np.int32(3) - week_before, np.int32(7))
    return week_before + np.int32(1) + (rest + np.int32(7)) % np.int32(7)


@certified(
    _FAMILY,
    "`date_trunc('hour', t)`: year, quarter, month, week, day, hour, minute, second, millisecond, "
    "microsecond",
    "timestamp; a literal",
    "TimestampTrunc",
)
def _date_trunc(reading: Reading, e: Any) -> Node:
    unit = getattr(e.args.get("unit"), "name", "").upper()
    value = reading.node(e.this)
    if unit not in (*_UNITS_OF_DATES, *_MICROS) or value.type != INSTANT:
        raise NotCertifiedError(f"date_trunc of {words(value.type)} to {unit.lower()}")
    return Call(INSTANT, value.fails, _begun_at, (value,), (unit,))


def _begun_at(times: pa.Array, unit: str) -> pa.Array:
    micros = micros_of(times)
    if unit in _MICROS:
        found = micros - micros % _MICROS[unit]
    else:
        found = first_days(day_of(micros), unit) * DAY_MICROS
    return pa.array(found, pa.int64(), mask=np.asarray(times.is_null())).cast(INSTANT)


# Moments as numbers ---------------------------------------------------------------------------

_UNITS = {"UnixSeconds": 1_000_000, "UnixMillis": 1_000, "UnixMicros": 1, "StrToUnix": 1_000_000}


@certified(
    _FAMILY,
    "`unix_seconds(t)`, `unix_millis(t)`, `unix_micros(t)`, `unix_timestamp(t)`: a long",
    "timestamp",
    *_UNITS,
)
def _unix(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if value.type != INSTANT:
        raise NotCertifiedError(f"{e.key} of {words(value.type)}")
    word = type(e).__name__
    kernel = _towards_1970 if word == "StrToUnix" else _since_1970
    return Call(pa.int64(), value.fails, kernel, (value,), (_UNITS[word],))


def _since_1970(times: pa.Array, unit: int) -> pa.Array:
    return pa.array(micros_of(times) // unit, mask=np.asarray(times.is_null()))


def _towards_1970(times: pa.Array, unit: int) -> pa.Array:
    """A part of a second is left out, also before 1970."""
    micros = micros_of(times)
    found = np.where(micros < 0, -(-micros // unit), micros // unit)
    return pa.array(found, mask=np.asarray(times.is_null()))


_FROM = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}


@certified(
    _FAMILY,
    "`timestamp_seconds(n)`, `timestamp_millis(n)`, `timestamp_micros(n)`",
    "byte, short, int, long",
    *_FROM,
)
def _moment(reading: Reading, e: Any) -> Node:
    name = e.name.lower()
    (argument,) = arguments(e)
    value = reading.node(argument)
    if value.type not in INTEGERS:
        raise NotCertifiedError(f"{name} of {words(value.type)}")
    return Call(INSTANT, MAY_FAIL, _at, (reading.to(value, pa.int64()),), (_FROM[name],))


def _at(numbers: pa.Array, unit: int) -> pa.Array:
    try:
        micros = pc.multiply_checked(numbers, pa.scalar(unit, pa.int64()))
    except pa.ArrowInvalid as error:
        raise RowError("DATETIME_OVERFLOW") from error
    return micros.cast(INSTANT)


@certified(_FAMILY, "`unix_date(d)`, `date_from_unix_date(n)`", "date; int", "UnixDate")
@certified(_FAMILY, "`unix_date(d)`, `date_from_unix_date(n)`", "date; int", "DateFromUnixDate")
def _unix_date(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    given, made = (DATE, pa.int32()) if type(e).__name__ == "UnixDate" else (pa.int32(), DATE)
    if value.type != given:
        raise NotCertifiedError(f"{e.key} of {words(value.type)}")
    return Call(made, value.fails, _as_type, (value,), (made,))


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(kind)


# Texts ----------------------------------------------------------------------------------------

_TOKENS = {
    "%Y": "year",
    "%mstrict": "month",
    "%dstrict": "day",
    "%Hstrict": "hour",
    "%Mstrict": "minute",
    "%Sstrict": "second",
}
_TOKEN = re.compile("(" + "|".join(map(re.escape, _TOKENS)) + ")")
_BETWEEN = re.compile(r"[-/:., ]*\Z")
_YEARS = re.compile(r"[yY]+")
_QUOTED = re.compile(r"'[^']*'")


@certified(
    _FAMILY,
    "`date_format(t, 'yyyy-MM-dd HH:mm:ss')`: of these parts, and of `-`, `/`, `:`, `.`, `,`, ` `",
    _MOMENTS,
    "TimeToStr",
)
def _formatted(reading: Reading, e: Any) -> Node:
    given = e.args.get("format")
    pattern = given.name if type(given).__name__ == "Literal" else "%"
    parts = tuple(each for each in _TOKEN.split(pattern) if each)
    plain = all(each in _TOKENS or _BETWEEN.match(each) for each in parts)
    if not parts or not plain or type(e.this).__name__ != "TimeStrToTime":
        raise NotCertifiedError("date_format with parts other than yyyy, MM, dd, HH, mm, ss")
    if e.this.args.get("zone"):
        raise NotCertifiedError("date_format in a time zone")
    written = {run for text in _QUOTED.findall(reading.text) for run in _YEARS.findall(text)}
    if "%Y" in parts and written != {"yyyy"}:  # sqlglot takes y for yyyy
        raise NotCertifiedError("date_format beside texts with a y")
    value = reading.node(e.this.this)
    if value.type not in TIMES:
        raise NotCertifiedError(f"date_format of {words(value.type)}")
    return Call(pa.string(), value.fails, _written, (value,), (parts,))


def _written(values: pa.Array, parts: tuple[str, ...]) -> pa.Array:
    texts = [_digits(values, _TOKENS[each]) if each in _TOKENS else each for each in parts]
    return pc.binary_join_element_wise(*texts, "")


def _digits(times: pa.Array, part: str) -> pa.Array:
    if part == "year":
        return year_texts(_of_calendar(times, part))
    numbers = (_of_clock if part in _CLOCK else _of_calendar)(times, part)
    return pc.utf8_lpad(numbers.cast(pa.string()), 2, "0")
