"""Values as texts, as Spark writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atoll.columns.calendar import calendar, clock, day_of, days_of, micros_of, year_texts
from atoll.columns.types import DATE, TIMES, is_decimal


def written(values: pa.Array) -> pa.Array:
    """Each value's text: of whole numbers, decimals, booleans, dates and moments."""
    if values.type == DATE:
        return _days(values, days_of(values))
    if values.type in TIMES:
        return _moments(values)
    if is_decimal(values.type):
        given = values.to_pylist()
        return pa.array([None if each is None else f"{each:f}" for each in given], pa.string())
    return values.cast(pa.string())


def _days(values: pa.Array, days: NDArray[np.int64]) -> pa.Array:
    year, month, day = (_numbers(calendar(days, each), values) for each in _CALENDAR)
    return pc.binary_join_element_wise(year_texts(year), _two(month), _two(day), "-")


_CALENDAR = ("year", "month", "day")
_CLOCK = ("hour", "minute", "second")


def _moments(times: pa.Array) -> pa.Array:
    """A fraction of a second only where there is one, without zeros at its end."""
    micros = micros_of(times)
    parts = [_two(_numbers(clock(micros, each), times)) for each in _CLOCK]
    rest = _numbers(micros % 1_000_000, times)
    digits = pc.ascii_rtrim(pc.utf8_lpad(rest.cast(pa.string()), 6, "0"), characters="0")
    fraction = pc.if_else(pc.equal(rest, 0), "", pc.binary_join_element_wise(".", digits, ""))
    day = _days(times, day_of(micros))
    spoken = pc.binary_join_element_wise(*parts, ":")
    return pc.binary_join_element_wise(day, " ", spoken, fraction, "")


def _numbers(found: NDArray[np.int64], values: pa.Array) -> pa.Array:
    return pa.array(found, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False))


def _two(numbers: pa.Array) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), 2, "0")
