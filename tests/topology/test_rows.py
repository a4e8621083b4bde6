"""Rows as user functions see them, and batches made of what they return."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.ddl import parse_ddl
from atoll.errors import UserCodeError
from atoll.topology.rows import Row, batch_from_rows, row_type, rows_of


def test_a_row_has_its_columns():
    """As attributes, items, a dict, and in its text."""
    (row,) = rows_of(pa.RecordBatch.from_pylist([{"k": "a", "v": 1}]))
    assert (row.k, row["v"]) == ("a", 1)
    assert row.asdict() == {"k": "a", "v": 1}
    assert repr(row) == "Row(k='a', v=1)"
    assert row == next(rows_of(pa.RecordBatch.from_pylist([{"k": "a", "v": 1}])))
    assert row != {"k": "a", "v": 1}
    with pytest.raises(KeyError):
        _ = row["asdict"]
    with pytest.raises(AttributeError):
        _ = row.missing


def test_row_types_are_shared():
    """One class per list of columns."""
    assert row_type(("a", "b")) is row_type(("a", "b"))
    assert row_type(("a", "b")) is not row_type(("b", "a"))


@pytest.mark.parametrize(
    "name", ["count(1)", "my column", "columns", "asdict", "__e0", "__class__", "class", "_values"]
)
def test_columns_of_any_name(name):
    """Spark allows names that Python does not; the row is whole all the same."""
    batch = pa.RecordBatch.from_arrays([pa.array([7]), pa.array(["a"])], [name, "k"])
    (row,) = rows_of(batch)
    assert row[name] == 7
    assert (row.k, row["k"]) == ("a", "a")
    assert row.asdict() == {name: 7, "k": "a"}
    assert isinstance(row, Row)
    assert f"{name}=7" in repr(row)
    with pytest.raises(KeyError):
        _ = row["missing"]
    with pytest.raises(AttributeError):
        _ = row.missing
    assert batch_from_rows([row], batch.schema, "map", "x.py:1").to_pylist() == batch.to_pylist()


def test_values_are_plain_python():
    """Whatever Arrow calls them."""
    moment = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    values = {
        "s": "é\0", "i": 2**40, "f": -0.5, "b": b"\0x", "o": True, "d": dt.date(2026, 3, 1),
        "m": moment, "n": decimal.Decimal("1.50"), "l": [1, None], "t": {"x": 1}, "z": None,
    }  # fmt: skip
    schema = pa.schema(
        [
            ("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("b", pa.binary()),
            ("o", pa.bool_()), ("d", pa.date32()), ("m", pa.timestamp("us", "UTC")),
            ("n", pa.decimal128(10, 2)), ("l", pa.list_(pa.int32())),
            ("t", pa.struct([("x", pa.int64())])), ("z", pa.string()),
        ]
    )  # fmt: skip
    (row,) = rows_of(pa.RecordBatch.from_pylist([values], schema=schema))
    assert row.asdict() == values


SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


@given(
    st.lists(
        st.tuples(st.none() | st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=20
    )
)
def test_rows_make_the_batch_they_came_from(pairs):
    """In order, nulls kept, from rows and dicts alike."""
    batch = pa.RecordBatch.from_pylist([{"k": k, "v": v} for k, v in pairs], schema=SCHEMA)
    rows = list(rows_of(batch))
    assert batch_from_rows(rows, SCHEMA, "map", "x.py:1").equals(batch)
    dicts = [row.asdict() for row in rows]
    assert batch_from_rows(dicts, SCHEMA, "map", "x.py:1").equals(batch)


def test_missing_columns_are_null():
    """A row may leave columns out."""
    assert batch_from_rows([{"v": 1}], SCHEMA, "map", "x.py:1").to_pylist() == [{"k": None, "v": 1}]


@pytest.mark.parametrize(
    ("emitted", "words"),
    [
        ({"k": "a", "w": 1}, "['w']"),
        (None, "None"),
        (3, "3"),
        (("a", 1), "('a', 1)"),
        ({"v": "text"}, "wrong type"),
        ({"v": 2**63}, "wrong type"),
        ({"v": 1.5}, "wrong type"),
        ({"k": 3}, "wrong type"),
    ],
)
def test_what_does_not_fit_is_the_users_error(emitted, words):
    """With the operator and its place."""
    with pytest.raises(UserCodeError) as caught:
        batch_from_rows([{"k": "a", "v": 1}, emitted], SCHEMA, "flat_map", "x.py:7")
    error = caught.value
    assert words in str(error)
    assert error.context["operator"] == "flat_map"
    assert error.context["declared"] == "x.py:7"
    assert error.hint


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("a decimal(38,18)", decimal.Decimal("1E-10000000")),
        ("a decimal(38,18)", decimal.Decimal("1E-77")),
        ("a array<decimal(38,18)>", [decimal.Decimal("1E-10000000")]),
        ("a map<string, decimal(38,18)>", {"x": decimal.Decimal("1E-10000000")}),
        ("a struct<x: decimal(38,18)>", {"x": decimal.Decimal("1E-10000000")}),
        ("a long", decimal.Decimal("1.5")),
        ("a array<long>", [1, decimal.Decimal("1E999999999")]),
        ("a array<long>", [1.5]),
        ("a date", decimal.Decimal("1E999999999")),
        ("a timestamp", decimal.Decimal("1E999999999")),
    ],
)
def test_numbers_that_do_not_fit_are_refused(ddl, value):
    """Arrow cut them, or ended the process; the message names the value."""
    with pytest.raises(UserCodeError, match=r"E|1\.5"):
        batch_from_rows([{"a": value}], parse_ddl(ddl), "map", "here")


NESTED = (
    "s struct<a: array<string>>, t struct<f0: array<long>, f1: long>, m map<string, array<long>>"
)


@pytest.mark.parametrize(
    ("emitted", "words"),
    [
        ({"s": ["a"]}, "column s: ['a'] is no struct"),
        ({"s": {"a"}}, "column s: {'a'} is no struct"),
        ({"s": "x"}, "column s: "),
        ({"t": [[1], 2]}, "column t: [[1], 2] is no struct"),
        ({"t": ([1],)}, "column t: ([1],) is no struct of f0, f1"),
        ({"m": {1}}, "column m: {1} is no map"),
        ({"m": {"a": {"b": 1}}}, "column m: {'b': 1} is no sequence"),
    ],
)
def test_another_shape_than_declared_is_named(emitted, words):
    """Its column and what was given, wherever a set might have been."""
    with pytest.raises(UserCodeError) as raised:
        batch_from_rows([emitted], parse_ddl(NESTED), "flat_map", "here")
    assert words in raised.value.message
