"""Days and moments as numbers, and the proleptic Gregorian calendar over them.

Arrow's own functions of dates know the years up to 32767; Spark's and these know all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

DAY_MICROS = 86_400_000_000
MONTHS = {"MONTH": 1, "MON": 1, "MM": 1, "QUARTER": 3, "YEAR": 12, "YYYY": 12, "YY": 12}
"""How many months belong together, by the name of what they are."""
_CLOCK = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}
_SINCE_MONDAY = 3
"""1970 began on a Thursday."""
_WEEK = 7
_YEAR_MAX = 9999
_YEAR_DIGITS = 4

Numbers = NDArray[np.int64]


def days_of(dates: pa.Array) -> Numbers:
    """The days since 1970; 0 where it is null."""
    found = dates.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(found, np.int64)


def micros_of(times: pa.Array) -> Numbers:
    """The microseconds since 1970; 0 where it is null."""
    return np.asarray(times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def day_of(micros: Numbers) -> Numbers:
    """The day of each moment."""
    return micros // DAY_MICROS


def to_dates(days: Numbers, nulls: Any) -> pa.Array:
    """Dates of days since 1970, which begin anew where an int does."""
    return pa.array(days.astype(np.int32), pa.int32(), mask=np.asarray(nulls)).cast(pa.date32())


def _month_of(days: Numbers) -> Numbers:
    """Counted from January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def first_day(months: Numbers) -> Numbers:
    """Of months counted from January 1970."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def first_days(days: Numbers, unit: str) -> Numbers:
    """Of the ``WEEK`` that each day is in, or of what :data:`MONTHS` names."""
    if unit == "WEEK":
        return days - (days + _SINCE_MONDAY) % _WEEK
    months = _month_of(days)
    return first_day(months - months % MONTHS[unit])


def months_later(days: Numbers, months: Numbers | int) -> Numbers:
    """The same day of the month so many months later, or the last one of that month."""
    month = _month_of(days)
    first = first_day(month + months)
    length = first_day(month + months + 1) - first
    day: Numbers = np.minimum(days - first_day(month), length - 1)
    return first + day


def clock(micros: Numbers, part: str) -> Numbers:
    """The ``hour``, ``minute`` or ``second`` of each moment."""
    size, count = _CLOCK[part]
    return micros // size % count


def calendar(days: Numbers, part: str) -> Numbers:
    """The ``year``, ``weekday`` or the like of each day, as Spark counts them."""
    match part:
        case "weekday":  # Monday is 0
            return (days + _SINCE_MONDAY) % _WEEK
        case "dayofweek":  # Sunday is 1
            return (days + _SINCE_MONDAY + 1) % _WEEK + 1
        case "dayofyear":
            return days - first_days(days, "YEAR") + 1
        case "weekofyear":  # that of the week's Thursday
            return (calendar(first_days(days, "WEEK") + 3, "dayofyear") - 1) // _WEEK + 1
        case "day":
            return days - first_days(days, "MONTH") + 1
    months = _month_of(days)
    if part == "year":
        return months // 12 + 1970
    return months % 12 // (3 if part == "quarter" else 1) + 1


def year_texts(years: pa.Array) -> pa.Array:
    """Of four digits at least; with a sign beyond 9999, and before year 0."""
    digits = pc.utf8_lpad(pc.abs(years).cast(pa.string()), _YEAR_DIGITS, "0")
    sign = pc.if_else(pc.less(years, 0), "-", pc.if_else(pc.greater(years, _YEAR_MAX), "+", ""))
    return pc.binary_join_element_wise(sign, digits, "")
