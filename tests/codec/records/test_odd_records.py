"""Records with what Arrow can hold and Python cannot, or the other way round: each is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.ddl import parse_ddl


def codec(ddl: str) -> RecordCodec:
    """A codec of a schema as text."""
    return RecordCodec(parse_ddl(ddl))


def reasons(checked: Checked) -> dict[int, str]:
    """Line to reason."""
    return {refusal.line: refusal.reason for refusal in checked.refusals}


WILD = pa.array([0, 2**62, 1])


@pytest.mark.parametrize(
    ("ddl", "column"),
    [
        ("t timestamp", WILD.cast(pa.timestamp("us", "UTC"))),
        ("t timestamp", WILD.cast(pa.timestamp("s"))),
        ("t timestamp_ntz", WILD.cast(pa.timestamp("ms"))),
        ("t date", WILD.cast(pa.date64())),
        ("t array<timestamp>", pa.array([[0], [2**62], [1]], pa.list_(pa.timestamp("us", "UTC")))),
        ("t array<timestamp>", pa.array([[0], [2**62], [1]], pa.list_(pa.timestamp("s")))),
    ],
)
def test_arrow_times_that_no_datetime_can_be(ddl: str, column: pa.Array) -> None:
    """The row is refused, and the others stay: nobody could read it again."""
    for data in (
        pa.table({"t": column}),
        pa.table({"t": pa.chunked_array([column[:1], column[1:]])}),
    ):
        checked = codec(f"{ddl}, k string").from_arrow(data, first_line=5)
        assert reasons(checked) == {6: "column t: a time before the year 1 or after 9999"}
        assert (checked.refused_count, len(checked.batch.to_pylist())) == (1, 2)


def test_times_that_leave_python_in_utc() -> None:
    """A datetime of the first day, east of Greenwich, lies before all of them."""
    east = dt.timezone(dt.timedelta(hours=14))
    checked = codec("at timestamp").from_rows(
        [{"at": dt.datetime(1, 1, 1, tzinfo=east)}, {"at": dt.datetime(1, 1, 2, tzinfo=east)}]
    )
    assert reasons(checked) == {1: "column at: the value does not fit timestamp"}
    assert checked.batch.num_rows == 1
    text = b'{"at": "0001-01-01T00:00:00+14:00"}'
    assert codec("at timestamp").from_json_lines(text).refused_count == 1


class Indexed:
    """Can be indexed, and is no mapping."""

    def __getitem__(self, at: int) -> int:
        """Itself."""
        return at

    def __len__(self) -> int:
        """None."""
        return 0


@pytest.mark.parametrize("given", [np.array([1, 2]), range(3), [1], (1,), {1}, "x"])
def test_what_is_no_mapping_for_a_map(given: Any) -> None:
    """It is refused with its column, and holds up nobody."""
    checked = codec("m map<string, long>").from_rows([{"m": {"a": 1}}, {"m": given}])
    assert reasons(checked)[2].startswith("column m: expected object, got ")
    assert checked.batch.num_rows == 1


def test_what_says_nothing_of_itself_for_a_map() -> None:
    """Msgspec asks it for its keys."""
    checked = codec("m map<string, long>").from_rows([{"m": Indexed()}, {"m": {"a": 1}}])
    assert "'Indexed' object has no attribute 'keys'" in reasons(checked)[1]
    assert checked.batch.num_rows == 1


@pytest.mark.parametrize("great", ["1E400", "-1E309", "1E999999", "1.8E308"])
@pytest.mark.parametrize(
    ("ddl", "shape"),
    [
        ("x double", lambda v: v),
        ("x float", lambda v: v),
        ("x array<double>", lambda v: [1.0, v]),
        ("x map<double, long>", lambda v: {v: 1}),
        ("x struct<a: double>", lambda v: {"a": v}),
    ],
)
def test_decimals_beyond_floats(ddl: str, shape: Any, great: str) -> None:
    """They would be infinite; what is infinite stays so, and what is near is rounded."""
    rows = [{"x": shape(Decimal(each))} for each in ("0.5", great, "Infinity")]
    checked = codec(ddl).from_rows(rows)
    assert reasons(checked) == {
        2: f"column x: {Decimal(great)} is beyond what a number here can be"
    }
    assert checked.batch.num_rows == 2


def test_numbers_beyond_small_floats() -> None:
    """A ``float`` has 32 bits: what would become infinite is refused, however it comes."""
    one = codec("x float")
    rows = [{"x": 1.0}, {"x": 1e39}, {"x": float("inf")}, {"x": 10**39}]
    for checked in (
        one.from_rows(rows),
        one.from_json_lines(b'{"x":1.0}\n{"x":1e39}\n{"x":2.0}\n{"x":%d}' % 10**39),
        one.from_arrow(pa.table({"x": [1.0, 1e39, float("inf"), 1e39]})),
        one.from_cells(["x"], [["1"], ["1e39"], ["3"], ["1e39"]], [1, 2, 3, 4]),
    ):
        assert sorted(reasons(checked)) == [2, 4]
        assert all("does not fit float" in each for each in reasons(checked).values())
        assert checked.batch.num_rows == 2
