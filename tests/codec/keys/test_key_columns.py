"""Vectorised keys: equal to the scalar side row by row, hashed, sorted, grouped and decoded."""

from __future__ import annotations

import datetime as dt
import math
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from codec_strategies import arrow_ready, scalars, values_of
from hypothesis import given
from hypothesis import strategies as st

from atoll.arrow_types import arrow_type
from atoll.codec import KeyColumn, decode_columns, empty_keys, encode_columns, encode_key
from atoll.errors import StateError
from atoll.schema import Scalar

INT = Scalar("int")
STR = Scalar("str")


def column_of(values: list[object], scalar: Scalar) -> pa.Array:
    """The values as the Arrow column that stands for them."""
    return pa.array([nested(value) for value in values], arrow_type(scalar))


def nested(value: object) -> object:
    """Tuples within tuples as Arrow builds them."""
    if isinstance(value, tuple):
        return arrow_ready(tuple(map(nested, value)))
    return value


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Scalar], list[tuple[object, ...]]]:
    """Kinds, and rows of values of them."""
    kinds = draw(st.lists(scalars(), min_size=1, max_size=3))
    return kinds, draw(st.lists(st.tuples(*map(values_of, kinds)), max_size=12))


def columns_of(kinds: list[Scalar], rows: list[tuple[object, ...]]) -> list[pa.Array]:
    """The rows as columns."""
    return [column_of([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


@given(tables())
def test_every_row_equals_the_scalar_side(table: tuple) -> None:
    """Bytes, hashes, order, groups and decoding all agree with one row at a time."""
    kinds, rows = table
    columns = columns_of(kinds, rows)
    keys = encode_columns(columns, kinds)
    expected = [encode_key(row, kinds) for row in rows]
    assert expected == keys.to_bytes() == keys.to_arrow().to_pylist()
    assert len(rows) == len(keys)
    assert [zlib.crc32(key) for key in expected] == keys.crc32().tolist()
    order = sorted(range(len(rows)), key=expected.__getitem__)
    assert order == keys.sort_order().tolist()
    ordered = [expected[i] for i in order]
    starts = [i for i, key in enumerate(ordered) if i == 0 or key != ordered[i - 1]]
    assert starts == keys.group_starts(keys.sort_order()).tolist()
    assert starts == keys.take(order).group_starts().tolist()
    assert ordered == keys.take(order).to_bytes()
    for column, decoded in zip(columns, decode_columns(expected, kinds), strict=True):
        assert column.type == decoded.type
        assert column.to_pylist() == decoded.to_pylist()


@given(tables(), st.integers(0, 5), st.integers(0, 5))
def test_slices_and_chunks_are_read_where_they_lie(table: tuple, skip: int, count: int) -> None:
    """A column with an offset, or in chunks, encodes as its own rows only."""
    kinds, rows = table
    columns = columns_of(kinds, rows)
    expected = [encode_key(row, kinds) for row in rows]
    sliced = [column.slice(skip, count) for column in columns]
    assert expected[skip : skip + count] == encode_columns(sliced, kinds).to_bytes()
    chunked = [pa.chunked_array([c.slice(0, skip), c.slice(skip)], c.type) for c in columns]
    assert expected == encode_columns(chunked, kinds).to_bytes()


@pytest.mark.parametrize(
    "numbers",
    [
        np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 70_000),
        np.random.default_rng(2).integers(-50, 50, 70_000),
        np.array([-(2**63), 2**63 - 1] * 40_000),
        np.arange(2**62, 2**62 + 40_000)[::-1].repeat(2),
    ],
    ids=["wide", "narrow", "extremes", "descending"],
)
def test_sorting_many_ints_is_stable(numbers: np.ndarray) -> None:
    """Large columns take the packed sort, with and without dropped bits."""
    keys = encode_columns([pa.array(numbers)], [INT])
    expected = np.argsort(numbers, kind="stable")
    assert np.array_equal(expected, keys.sort_order())
    assert len(set(numbers.tolist())) == len(keys.group_starts(keys.sort_order()))


def test_close_numbers_in_a_wide_range_are_repaired() -> None:
    """Numbers that differ only in the bits that the packed sort dropped still sort."""
    numbers = np.concatenate([np.arange(1000)[::-1], [2**63 - 1, -(2**63)]])
    keys = encode_columns([pa.array(numbers)], [INT])
    assert np.array_equal(np.argsort(numbers, kind="stable"), keys.sort_order())


@pytest.mark.parametrize(
    ("column", "kind", "plain"),
    [
        (pa.array([1, 2], pa.int8()), "int", [1, 2]),
        (pa.array([1, 2], pa.uint32()), "int", [1, 2]),
        (pa.array([1, 2**53 + 1]), "float", [1, 2**53 + 1]),
        (pa.array([0.5, math.nan], pa.float32()), "float", [0.5, math.nan]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "str", ["a", "b", "a"]),
        (pa.array(["a", "b"], pa.large_string()), "str", ["a", "b"]),
        (pa.array([b"ab"], pa.binary(2)), "bytes", [b"ab"]),
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "decimal", [Decimal("1.5")]),
        (
            pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("s", "Asia/Tokyo")),
            "datetime",
            [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
        ),
    ],
)
def test_other_arrow_types_are_cast(column: pa.Array, kind: str, plain: list) -> None:
    """Columns in other widths and encodings give the keys of their values."""
    expected = [encode_key((value,), [Scalar(kind)]) for value in plain]
    assert expected == encode_columns([column], [Scalar(kind)]).to_bytes()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([True]), "int"),
        (pa.array([1.0]), "int"),
        (pa.array([2**63], pa.uint64()), "int"),
        (pa.array([1]), "bool"),
        (pa.array(["x"]), "bytes"),
        (pa.array([0], pa.timestamp("us")), "datetime"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "datetime"),
        (pa.array([2**62], pa.timestamp("us", "UTC")), "datetime"),
        (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "date"),
        (pa.array([1]), "tuple"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(column: pa.Array, kind: str) -> None:
    """A column whose type or values do not fit is an error that names the column."""
    items = (INT,) if kind == "tuple" else ()
    with pytest.raises(StateError, match="key column 1"):
        encode_columns([pa.array([1]), column], [INT, Scalar(kind, items=items)])


def test_the_row_of_a_misfit_is_named() -> None:
    """For a null and for a value out of range alike."""
    with pytest.raises(StateError) as caught:
        encode_columns([pa.array(["a", "b", None, "c"])], [STR])
    assert caught.value.context["row"] == 2
    with pytest.raises(StateError) as caught:
        encode_columns([pa.array([1, 2, 3, 2**63, 5], pa.uint64())], [INT])
    assert caught.value.context["row"] == 3


def test_all_null_and_empty_columns() -> None:
    """A column of Arrow's null type is all None; no rows are no keys."""
    optional = Scalar("int", optional=True)
    keys = encode_columns([pa.nulls(2)], [optional]).to_bytes()
    assert keys == [b"\x01", b"\x01"]
    assert decode_columns(keys, [optional])[0].to_pylist() == [None, None]
    for kind in (INT, STR):
        none = encode_columns([pa.array([], arrow_type(kind))], [kind])
        assert (len(none), none.to_bytes(), none.crc32().tolist()) == (0, [], [])
        assert none.sort_order().tolist() == none.group_starts().tolist() == []
        assert decode_columns([], [kind])[0].to_pylist() == []
    assert empty_keys(2).to_bytes() == [b"\x00", b"\x00"]
    assert decode_columns([b"\x00"], []) == []


def test_keys_made_elsewhere_are_a_column() -> None:
    """Encoded keys of any widths sort and hash as a column."""
    keys = KeyColumn.from_bytes([b"bb", b"a", b"bb"])
    assert keys.sort_order().tolist() == [1, 0, 2]
    assert keys.crc32().tolist() == [zlib.crc32(b"bb"), zlib.crc32(b"a"), zlib.crc32(b"bb")]
    assert keys.width is None
    assert encode_columns([pa.array([1])], [INT]).width == 9


@given(tables(), st.binary(max_size=4), st.integers(0, 40))
def test_other_keys_are_refused_not_misread(table: tuple, junk: bytes, place: int) -> None:
    """Keys with bytes changed or cut decode to columns that encode to them, or are refused."""
    kinds, rows = table
    keys = [encode_key(row, kinds) for row in rows]
    damaged = [key[:place] + junk + key[place + len(junk) :] for key in keys]
    try:
        columns = decode_columns(damaged, kinds)
    except StateError:
        return
    assert all(len(column) == len(damaged) for column in columns)


@pytest.mark.parametrize(
    "exponent", [0, 1, (1 << 31) - 10_000_000, (1 << 31) + 10_000_000, 2**32 - 1]
)
@pytest.mark.parametrize("sign", [False, True])
def test_a_damaged_exponent_is_refused(exponent: int, sign: bool) -> None:
    """Bytes that say ``1E-10000000`` ended the process where they became a column."""
    kinds = [Scalar("decimal")]
    key = encode_key((Decimal("-1.5") if sign else Decimal("1.5"),), kinds)
    damaged = key[:2] + exponent.to_bytes(4, "big") + key[6:]
    assert damaged != key
    with pytest.raises(StateError, match="fit their columns"):
        decode_columns([key, damaged], kinds)


def test_wide_ints_cannot_be_read_as_columns() -> None:
    """A key may hold an int of any size; a column of int64 refuses it by name."""
    with pytest.raises(StateError, match="int"):
        decode_columns([encode_key((2**70,), [INT])], [INT])
