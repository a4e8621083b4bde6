"""Parts of dates and times; instants are read in UTC, which is the session's time zone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.casts import cast
from atoll.columns.forms import Reading, certified
from atoll.columns.tree import Call, Node
from atoll.columns.types import DATE, INSTANT, NotCertifiedError, words

__all__: list[str] = []

_FAMILY = "Dates and times"
_TIMES = (INSTANT, pa.timestamp("us"))


@certified(
    _FAMILY,
    "`hour(t)`, `minute(t)`, `second(t)`",
    "timestamp, timestamp_ntz",
    "Hour",
    "Minute",
    "Second",
)
def _clock(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if value.type not in _TIMES:
        raise NotCertifiedError(f"{e.key} of {words(value.type)}")
    return Call(pa.int32(), value.fails, _of_clock, (value,), (e.key,))


def _of_clock(values: pa.Array, part: str) -> pa.Array:
    return pc.call_function(part, [values.cast(pa.timestamp("us"))]).cast(pa.int32())


@certified(
    _FAMILY,
    "`year(d)`, `month(d)`, `day(d)`",
    "date, timestamp, timestamp_ntz",
    "Year",
    "Month",
    "Day",
    "DayOfMonth",
)
def _calendar(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if value.type not in (*_TIMES, DATE):
        raise NotCertifiedError(f"{e.key} of {words(value.type)}")
    part = "day" if e.key == "dayofmonth" else e.key
    return Call(pa.int32(), value.fails, _of_calendar, (value,), (part,))


def _of_calendar(values: pa.Array, part: str) -> pa.Array:
    plain = values if values.type == DATE else values.cast(pa.timestamp("us"))
    return pc.call_function(part, [plain]).cast(pa.int32())


@certified(_FAMILY, "`to_date(t)`", "date, timestamp, timestamp_ntz", "TsOrDsToDate")
def _to_date(reading: Reading, e: Any) -> Node:
    value = reading.node(e.this)
    if value.type not in (*_TIMES, DATE):
        raise NotCertifiedError(f"to_date of {words(value.type)}")
    return cast(value, DATE)


_FORMATS = {"%Hstrict:%Mstrict": "%H:%M", "%Hstrict": "%H", "%Mstrict": "%M"}
"""What sqlglot makes of ``HH:mm``, ``HH`` and ``mm``."""


@certified(
    _FAMILY,
    "`date_format(t, 'HH:mm')`, `date_format(t, 'HH')`, `date_format(t, 'mm')`",
    "timestamp, timestamp_ntz",
    "TimeToStr",
)
def _formatted(reading: Reading, e: Any) -> Node:
    given = e.args.get("format")
    pattern = _FORMATS.get(given.name if type(given).__name__ == "Literal" else "")
    if pattern is None or type(e.this).__name__ != "TimeStrToTime" or e.this.args.get("zone"):
        raise NotCertifiedError("date_format with a format other than HH:mm, HH and mm")
    value = reading.node(e.this.this)
    if value.type not in _TIMES:
        raise NotCertifiedError(f"date_format of {words(value.type)}")
    return Call(pa.string(), value.fails, _written, (value,), (pattern,))


def _written(values: pa.Array, pattern: str) -> pa.Array:
    return pc.strftime(values.cast(pa.timestamp("us")), pattern)
