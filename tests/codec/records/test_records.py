"""Checking records: every way in agrees, every refusal names line and column, all come back."""

from __future__ import annotations

import datetime as dt
import gc
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.ddl import parse_ddl
from atoll.depot.append.texts import csv_rows
from atoll.errors import UsageError

UTC = dt.UTC
WIDE = (
    "k string NOT NULL, b boolean, i8 byte, i16 short, i32 int, i64 long, f float, d double, "
    "n decimal(10, 2), x binary, day date, at timestamp, wall timestamp_ntz, "
    "tags array<string>, m map<string, long>, s struct<a: int NOT NULL, b: array<double>>"
)


def codec(ddl: str) -> RecordCodec:
    """A codec of a schema as text."""
    return RecordCodec(parse_ddl(ddl))


def reasons(checked: Checked) -> dict[int, str]:
    """Line to reason."""
    return {refusal.line: refusal.reason for refusal in checked.refusals}


def test_json_lines() -> None:
    """Blank lines count but are no records; missing means null; spaces are free."""
    checked = codec("k string, v long").from_json_lines(
        b'{"k":"a","v":1}\n\n  \r\n {"v": 2} \r\n{"k":null,"v":null}', first_line=10
    )
    assert checked.batch.to_pylist() == [
        {"k": "a", "v": 1},
        {"k": None, "v": 2},
        {"k": None, "v": None},
    ]
    assert (checked.refusals, checked.refused_count) == ([], 0)


def test_json_refusals() -> None:
    """Each kind of misfit is refused on its own line, with the column, and the good ones stay."""
    lines = {
        b'{"k":"good","i64":1}': None,
        b'{"k":null}': "column k: expected str, got null",
        b'{"i64":1}': "missing required field k",
        b'{"k":"a","zz":1}': "unknown field zz",
        b'{"k":"a","i64":"1"}': "column i64: expected int, got str",
        b'{"k":"a","i64":1.5}': "column i64: expected int, got float",
        b'{"k":"a","i64":true}': "column i64: expected int, got bool",
        b'{"k":"a","i8":128}': "column i8: expected int <= 127",
        b'{"k":"a","i64":9223372036854775808}': "column i64: expected int <= 9223372036854775807",
        b'{"k":"a","i64":-99999999999999999999}': "column i64: expected int >= -92233720368",
        b'{"k":"a","day":"2015-02-30"}': "column day: invalid RFC3339 encoded date",
        b'{"k":"a","at":"yesterday"}': "column at: invalid RFC3339 encoded datetime",
        b'{"k":"a","wall":"2015-01-01T00:00:00Z"}': "column wall: ",
        b'{"k":"a","n":1.234}': "column n: the value does not fit decimal(10,2)",
        b'{"k":"a","n":123456789.5}': "column n: the value does not fit decimal(10,2)",
        b'{"k":"a","s":{"a":"x"}}': "column s.a: expected int, got str",
        b'{"k":"a","s":{}}': "column s: object missing required field a",
        b'{"k":"a","tags":["x",3]}': "column tags[1]: ",
        b'{"k":"a","m":{"x":"y"}}': "column m[...]: expected int, got str",
        b'{"k":"a","x":"???"}': "column x: ",
        b'["k"]': "expected object, got array",
        b"nope": "not valid JSON",
        b'{"k":"a"': "not valid JSON",
        b'{"k":"a"} {"k":"b"}': "not valid JSON",
        b'{"k":"\xff"}': "not valid UTF-8",
        b'{"k":"\\ud800"}': "not valid JSON",
        b'{"k":"last"}': None,
    }
    checked = codec(WIDE).from_json_lines(b"\n".join(lines))
    assert checked.batch.column("k").to_pylist() == ["good", "last"]
    found = reasons(checked)
    for line, expected in enumerate(lines.values(), 1):
        if expected is not None:
            assert found.pop(line).lower().startswith(expected.lower())
    assert found == {}
    assert checked.refused_count == len(lines) - 2


def test_timestamps() -> None:
    """Naive means UTC, offsets are undone, a blank may stand for the T."""
    checked = codec("at timestamp").from_json_lines(
        b'{"at":"2015-07-15 00:00:00.005"}\n{"at":"2015-07-15T02:00:00.005+02:00"}\n'
        b'{"at":"2015-07-15T00:00:00.005Z"}'
    )
    assert checked.refused_count == 0
    instant = dt.datetime(2015, 7, 15, microsecond=5000, tzinfo=UTC)
    assert checked.batch.column("at").to_pylist() == [instant] * 3


def test_rows() -> None:
    """Rows may hold Python's, numpy's and pandas' scalars; what is no mapping is refused."""
    rows: list[Any] = [
        {"k": "a", "v": 1, "at": dt.datetime(2020, 1, 1)},  # noqa: DTZ001  # naive on purpose
        {"k": "b", "v": np.int32(2), "at": pd.Timestamp("2020-01-01 01:00", tz="Europe/Paris")},
        {"k": np.str_("c"), "v": None},
        7,
        {"k": "d", "v": True},
        {3: 4},
    ]
    checked = codec("k string, v long, at timestamp").from_rows(rows, first_line=3)
    new_year = dt.datetime(2020, 1, 1, tzinfo=UTC)
    assert checked.batch.to_pylist() == [
        {"k": "a", "v": 1, "at": new_year},
        {"k": "b", "v": 2, "at": new_year},
        {"k": "c", "v": None, "at": None},
    ]
    assert set(reasons(checked)) == {6, 7, 8}
    assert "int" in reasons(checked)[6]


def test_one_bad_record_among_many() -> None:
    """One bad record is found among thousands, by its line, wherever it is."""
    count = 5000
    for at in (0, 1, 2499, count - 1):
        rows: list[Any] = [{"v": n} for n in range(count)]
        rows[at] = {"v": "x"}
        data = b"\n".join(json.dumps(row).encode() for row in rows)
        for checked in (codec("v long").from_rows(rows), codec("v long").from_json_lines(data)):
            assert list(reasons(checked)) == [at + 1]
            assert checked.batch.column("v").to_pylist() == [n for n in range(count) if n != at]


def test_many_refusals_are_counted_but_not_all_kept() -> None:
    """The reasons kept are bounded, the count is not."""
    checked = codec("v long").from_rows([{"v": "x"}] * 1000)
    assert checked.refused_count == 1000
    assert [refusal.line for refusal in checked.refusals] == list(range(1, 101))


def from_csv(ddl: str, text: str) -> list[Checked]:
    """What is read of CSV."""
    return list(csv_rows(codec(ddl), io.BytesIO(text.encode()).read, 1 << 20))


def test_csv() -> None:
    """Empty cells are null (or the empty string where null cannot be); lines are the text's."""
    text = 'v,k,m,ok\n1,a,"{""x"": 3}",true\n\n,b,,0\nx,c,,\n1,2\n"2","two\nlines",,1\n3,,,\n'
    [checked] = from_csv("k string NOT NULL, v long, m map<string,long>, ok boolean", text)
    assert checked.batch.to_pylist() == [
        {"k": "a", "v": 1, "m": [("x", 3)], "ok": True},
        {"k": "b", "v": None, "m": None, "ok": False},
        {"k": "two\nlines", "v": 2, "m": None, "ok": True},
        {"k": "", "v": 3, "m": None, "ok": None},
    ]
    assert reasons(checked) == {
        5: "column v: expected int, got str",
        6: "2 cells where the header names 4",
    }


def test_csv_header() -> None:
    """A header that names unknown or repeated columns is refused as a whole."""
    for header in ("k,z", "k,k"):
        with pytest.raises(UsageError):
            from_csv("k string", f"{header}\n1,2\n")
    assert from_csv("k string", "") == []


def test_arrow() -> None:
    """Columns by name, in any order and chunking; cast only where no value changes."""
    table = pa.table(
        {
            "v": pa.chunked_array([[1, 2], [3]], pa.int32()),
            "k": pa.array(["a", "b", None]).dictionary_encode(),
            "at": pa.array([0, 1, 1001], pa.timestamp("ns")),
        }
    )
    checked = codec("k string, v long, at timestamp, extra double").from_arrow(table)
    assert checked.refused_count == 0
    assert checked.batch.schema == parse_ddl("k string, v long, at timestamp, extra double")
    assert checked.batch.column("v").to_pylist() == [1, 2, 3]
    assert checked.batch.column("k").to_pylist() == ["a", "b", None]


def test_arrow_refusals() -> None:
    """Rows whose values cannot be kept are refused one by one, missing ones too."""
    table = pa.table({"k": ["a", None, "c", "d"], "v": [1.0, 2.0, 3.5, 2.0**70]})
    checked = codec("k string NOT NULL, v long").from_arrow(table, first_line=5)
    assert checked.batch.to_pylist() == [{"k": "a", "v": 1}]
    assert reasons(checked) == {
        6: "column k: missing, and it is declared NOT NULL",
        7: "column v: 3.5 does not fit bigint",
        8: "column v: 1.1805916207174113e+21 does not fit bigint",
    }


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"v": ["1"], "k": ["a"]}, "column v: expected bigint, got string"),
        ({"v": [1], "k": ["a"], "z": [1]}, "unknown field z"),
        ({"v": [1]}, "column k: missing, and it is declared NOT NULL"),
        ({"v": [True], "k": ["a"]}, "column v: expected bigint, got bool"),
    ],
)
def test_arrow_misfits(table: dict[str, Any], reason: str) -> None:
    """A table whose columns cannot fit is refused row by row, with the one reason."""
    checked = codec("k string NOT NULL, v long").from_arrow(pa.table(table))
    assert checked.batch.num_rows == 0
    assert checked.refused_count == 1
    assert reasons(checked) == {1: reason}


def test_arrow_nested_not_null() -> None:
    """A null inside a struct, where the schema forbids it, is found."""
    nullable = pa.struct([("a", pa.int32())])
    table = pa.table({"s": pa.array([{"a": 1}, {"a": None}], nullable)})
    checked = codec("s struct<a: int NOT NULL>").from_arrow(table)
    assert checked.batch.to_pylist() == [{"s": {"a": 1}}]
    assert list(reasons(checked)) == [2]


def test_pandas() -> None:
    """NaN is null, the index is left out, naive times are UTC, mixed columns are told by row."""
    frame = pd.DataFrame(
        {
            "k": ["a", "b"],
            "v": [1.0, None],
            "at": pd.to_datetime(["2020-01-01", None]),
        },
        index=[7, 8],
    )
    checked = codec("k string, v long, at timestamp").from_pandas(frame)
    assert checked.batch.to_pylist() == [
        {"k": "a", "v": 1, "at": dt.datetime(2020, 1, 1, tzinfo=UTC)},
        {"k": "b", "v": None, "at": None},
    ]
    mixed = pd.DataFrame({"v": [1, "x", None]}, dtype=object)
    checked = codec("v long").from_pandas(mixed)
    assert checked.batch.to_pylist() == [{"v": 1}, {"v": None}]
    assert list(reasons(checked)) == [2]


def test_names_that_are_no_identifiers() -> None:
    """Any field name works, also Python's keywords."""
    checked = codec("`a b` int, class string, `f0` int").from_rows(
        [{"a b": 1, "class": "x", "f0": 2}, {"a b": "?"}]
    )
    assert checked.batch.to_pylist() == [{"a b": 1, "class": "x", "f0": 2}]
    assert reasons(checked) == {2: "column a b: expected int, got str"}


def test_pickle() -> None:
    """A codec travels as its schema."""
    again = pickle.loads(pickle.dumps(codec(WIDE)))
    assert again.from_rows([{"k": "a", "s": {"a": 1}}]).refused_count == 0


def test_batches_of_records_of_several_calls() -> None:
    """The records of several checks make one batch."""
    one = codec(WIDE)
    checks = [one.from_rows([{"k": f"{n}", "s": {"a": n}, "m": {"x": n}}]) for n in range(3)]
    merged = one.batch_of([record for checked in checks for record in checked.records or []])
    assert merged.to_pylist() == [row for checked in checks for row in checked.batch.to_pylist()]


times = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001
row_strategy = st.fixed_dictionaries(
    {"k": st.text(max_size=5)},
    optional={
        "b": st.none() | st.booleans(),
        "i8": st.integers(-128, 127),
        "i16": st.integers(-(2**15), 2**15 - 1),
        "i32": st.integers(-(2**31), 2**31 - 1),
        "i64": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "d": st.floats(allow_nan=False, allow_infinity=False),
        "n": st.decimals("-99999999", "99999999", places=2),
        "x": st.binary(max_size=5),
        "day": st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)),
        "at": times.map(lambda time: time.replace(tzinfo=UTC)),
        "wall": times,
        "tags": st.lists(st.none() | st.text(max_size=3), max_size=3),
        "m": st.dictionaries(st.text(max_size=3), st.none() | st.integers(-5, 5), max_size=3),
        "s": st.none()
        | st.fixed_dictionaries(
            {"a": st.integers(-5, 5), "b": st.lists(st.floats(-1, 1), max_size=2)}
        ),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(row_strategy, max_size=8))
def test_every_way_in_agrees(rows: list[dict[str, Any]]) -> None:
    """Rows, JSON lines, Arrow and the way back out hold the same records."""
    one = codec(WIDE)
    checked = one.from_rows(rows)
    assert checked.refused_count == 0
    out = one.to_rows(checked.batch)
    names = one.schema.names
    assert [{name: row.get(name) for name in names} for row in rows] == out
    assert one.from_json_lines(msgspec.json.Encoder().encode_lines(out)).batch.equals(checked.batch)
    assert one.from_arrow(checked.batch).batch.equals(checked.batch)
    assert one.from_arrow(pa.Table.from_batches([checked.batch])).batch.equals(checked.batch)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(row_strategy, st.just({"k": 1}), st.just(3)), max_size=40))
def test_good_and_bad_are_told_apart(rows: list[Any]) -> None:
    """Whatever the mix, exactly the bad rows are refused, and the order of the good ones stays."""
    checked = codec(WIDE).from_rows(rows)
    bad = [line for line, row in enumerate(rows, 1) if row in (3, {"k": 1})]
    assert [refusal.line for refusal in checked.refusals] == bad
    good = [row["k"] for line, row in enumerate(rows, 1) if line not in bad]
    assert checked.batch.column("k").to_pylist() == good


def test_decimals_of_every_form() -> None:
    """Decimals come from JSON numbers without a detour over floats, and from text."""
    checked = codec("n decimal(38, 18)").from_json_lines(b'{"n":0.1}\n{"n":"0.1"}\n{"n":1e2}')
    assert checked.batch.column("n").to_pylist() == [Decimal("0.1"), Decimal("0.1"), Decimal(100)]


def test_records_are_not_tracked_by_the_collector() -> None:
    """A million records cost the garbage collector nothing while they are checked."""
    records = codec("k string, v long").from_rows([{"k": "a", "v": 1}]).records
    assert records
    assert not gc.is_tracked(records[0])


def test_a_decimal_of_another_scale_is_refused_where_it_does_not_fit():
    """Never another number: Arrow's own cast loses the high digits of some."""
    table = pa.table({"n": pa.array([Decimal("9" * 30), Decimal(1)], pa.decimal128(38, 2))})
    checked = codec("n decimal(38, 18)").from_arrow(table)
    assert checked.batch.column("n").to_pylist() == [Decimal(1)]
    assert [refusal.line for refusal in checked.refusals] == [1]


EXTREMES = ["1E-10000000", "1E-1000", "1E-77", "0E-99999999", "1E10000000", "Infinity", "1.5"]
"""Of these, zero and 1.5 are decimals that a column can hold."""


@pytest.mark.parametrize("shape", ["plain", "list", "map", "struct"])
def test_decimals_of_any_exponent(shape: str) -> None:
    """Over every way in, at any depth: the good ones stay, the others are refused by their line."""
    ddl = (
        "k string, n "
        + {
            "plain": "decimal(38, 18)",
            "list": "array<decimal(38, 18)>",
            "map": "map<string, decimal(38, 18)>",
            "struct": "struct<x: int, d: decimal(38, 18)>",
        }[shape]
    )
    wrapped = {
        "plain": lambda value: value,
        "list": lambda value: [Decimal(1), value],
        "map": lambda value: {"x": value},
        "struct": lambda value: {"x": 1, "d": value},
    }[shape]
    rows = [{"k": text, "n": wrapped(Decimal(text))} for text in EXTREMES]
    texts = [json.dumps({"k": text, "n": wrapped(text)}, default=str) for text in EXTREMES]
    cells = [
        [text, text if shape == "plain" else json.dumps(wrapped(text), default=str)]
        for text in EXTREMES
    ]
    this = codec(ddl)
    ways = [
        this.from_rows(rows),
        this.from_json_lines("\n".join(texts).encode()),
        this.from_cells(["k", "n"], cells, range(1, len(cells) + 1)),
        this.from_pandas(pd.DataFrame(rows)),
    ]
    good = [rows[3] | {"n": wrapped(Decimal(0))}, rows[6]]
    for checked in ways:
        assert good == this.to_rows(checked.batch)
        expected = f"column n: the value does not fit {ddl.split(' n ')[1]}".replace(", ", ",")
        found = {line: reason.replace(", ", ",") for line, reason in reasons(checked).items()}
        assert {1: expected, 2: expected, 3: expected, 5: expected, 6: expected} == found


@pytest.mark.parametrize("scale", [-10_000_000, 10_000_000])
@pytest.mark.parametrize("ddl", ["n decimal(38, 18)", "n double", "n array<decimal(38, 18)>"])
def test_arrow_decimals_of_a_scale_that_cannot_be(scale: int, ddl: str) -> None:
    """An Arrow stream may declare any scale; its column is refused before a value is moved."""
    kind = pa.decimal128(38, scale)
    column = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(16))])
    if "array" in ddl:
        column = pa.ListArray.from_arrays([0, 1], column)
    checked = codec(ddl).from_arrow(pa.table({"n": column}))
    assert (checked.refused_count, checked.batch.num_rows) == (1, 0)
    assert "column n: no decimals of the scale" in reasons(checked)[1]
