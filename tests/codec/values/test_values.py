"""Leaf codecs: round trips, the two paths equal, hidden state, JSON, and what is refused."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from codec_strategies import scalars, values_of
from hypothesis import given
from hypothesis import strategies as st

from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.codec.values.opaque import arrow_ready, pack
from atoll.errors import DeclarationError, StateError
from atoll.schema import List, Map, Node, Scalar, Set, Struct, as_node

NOW = dt.datetime(2026, 11, 20, 12, 30, 0, 123456, tzinfo=dt.UTC)
NAMES = st.sampled_from(["a", "b", "total", "naïve name"])


def nodes(depth: int = 2) -> st.SearchStrategy[Node]:
    """Leaves of every shape."""
    simple = scalars(depth=1)
    if depth == 0:
        return simple
    keys = scalars(optional=False, depth=1)
    members = nodes(depth - 1)
    structs = st.dictionaries(NAMES, members, min_size=1, max_size=4).map(lambda f: Struct(**f))
    inner = members | st.builds(Map, keys, members) | st.builds(Set, keys)
    return simple | st.builds(List, inner) | structs


def node_values(node: Node) -> st.SearchStrategy:
    """Values of a leaf."""
    match node:
        case Scalar():
            return values_of(node)
        case List(item):
            return st.lists(node_values(item), max_size=3)
        case Set(item):
            return st.sets(node_values(item), max_size=3)
        case Map(key, value):
            return st.dictionaries(node_values(key), node_values(value), max_size=3)
        case Struct(fields):
            return st.fixed_dictionaries({name: node_values(field) for name, field in fields})


@st.composite
def leaves(draw: st.DrawFn) -> tuple[Node, list[object]]:
    """A leaf and values of it, None among them."""
    node = draw(nodes().filter(lambda node: node.leaf))
    return node, draw(st.lists(st.none() | node_values(node), max_size=8))


def seen(value: object) -> object:
    """What a reader sees: a struct of nothing but None is None."""
    if isinstance(value, dict) and value and all(member is None for member in value.values()):
        return None
    return value


@given(leaves())
def test_both_paths_round_trip_and_agree(leaf: tuple) -> None:
    """Value to bytes to value, value to bytes to columns to the same bytes, columns to value."""
    node, values = leaf
    codec = leaf_codec(node)
    stored = [codec.encode(value) for value in values]
    expected = [seen(v) if isinstance(node, Struct) else v for v in values]
    assert expected == [codec.decode(data) for data in stored]
    assert expected == [codec.decode(memoryview(data)) for data in stored]
    columns = codec.decode_columns(stored)
    assert codec.columns == tuple(column.type for column in columns)
    assert stored == codec.encode_columns(columns)
    finished = codec.finish_columns(columns)
    assert codec.value_arrow_type == finished.type
    ready = [arrow_ready(node, value) for value in expected]
    assert pa.array(ready, finished.type).to_pylist() == finished.to_pylist()


@given(leaves(), st.integers(0, 4))
def test_absent_rows_are_null_and_slices_are_kept(leaf: tuple, skip: int) -> None:
    """A None in place of a row is null in each column; sliced columns encode their own rows."""
    node, values = leaf
    codec = leaf_codec(node)
    stored = [codec.encode(value) for value in values]
    spread = [part for data in stored for part in (None, data)]
    columns = codec.decode_columns(spread)
    assert all(column[i].as_py() is None for column in columns for i in range(0, len(spread), 2))
    nothing = codec.encode(None)
    expected = [nothing if data is None else data for data in spread]
    assert expected[skip:] == codec.encode_columns([column.slice(skip) for column in columns])


@given(leaves())
def test_json_and_pickle(leaf: tuple) -> None:
    """A codec travels in the deployment object and to the tasks."""
    codec = leaf_codec(leaf[0])
    assert codec == LeafCodec.from_json(codec.to_json())
    assert codec == pickle.loads(pickle.dumps(codec))


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        (int, -2, "feffffffffffffff"),
        (int, None, ""),
        (bool, True, "0100000000000000"),
        (float, 1, "000000000000f03f"),
        (str, "é", "c3a9"),
        (str, "", ""),
        (str, None, "ff"),
        (bytes, b"", "01"),
        (bytes, None, "00"),
        (List(int), [1], "9101"),
        (List(int), None, "c0"),
        (Struct(a=int, b=bool), {"a": 1}, "02" + "0100000000000000" + "0000000000000000"),
        (Struct(a=str, b=int), {"a": "x", "b": 1}, "00" + "0100000000000000" + "01000000" + "78"),
    ],
)
def test_stored_bytes_are_fixed(declared: object, value: object, expected: str) -> None:
    """The stored format does not change by accident."""
    assert expected == leaf_codec(as_node(declared)).encode(value).hex()


def test_an_average_keeps_its_sum_and_count() -> None:
    """Two columns in the store, one float for the reader, None where nothing was counted."""
    codec = leaf_codec(as_node(float), {"": "avg:int"})
    columns = [pa.array([7, 0, None]), pa.array([2, 0, None])]
    stored = codec.encode_columns(columns)
    assert [codec.decode(data) for data in stored] == [3.5, None, None]
    decoded = codec.decode_columns(stored)
    assert [c.to_pylist() for c in columns] == [c.to_pylist() for c in decoded]
    assert codec.finish_columns(decoded).to_pylist() == [3.5, None, None]
    with pytest.raises(StateError, match="hidden state"):
        codec.encode(1.0)


def test_a_struct_of_hidden_and_plain_fields() -> None:
    """Every field finishes for itself; the struct is null where all its columns are."""
    node = Struct(mean=float, last=str, top=List(str), pair=tuple[int, str], n=int)
    finishers = {"mean": "avg", "last": "ordered:datetime", "top": "top:float"}
    codec = LeafCodec.from_json(leaf_codec(node, finishers).to_json())
    pairs = [{"order": 2.5, "value": "b"}, {"order": 1.0, "value": "a"}]
    top = pa.array([pack(List(Struct(order=float, value=str)), pairs), None], pa.binary())
    columns = [
        pa.array([3.0, None]),
        pa.array([2, None]),
        pa.array([NOW, None], pa.timestamp("us", "UTC")),
        pa.array(["x", None]),
        top,
        pa.array([{"f0": 1, "f1": "y"}, None], pa.struct({"f0": pa.int64(), "f1": pa.string()})),
        pa.array([9, None]),
    ]
    stored = codec.encode_columns(columns)
    value = {"mean": 1.5, "last": "x", "top": ["b", "a"], "pair": (1, "y"), "n": 9}
    assert [value, None] == [codec.decode(data) for data in stored]
    decoded = codec.decode_columns(stored)
    assert [c.to_pylist() for c in columns] == [c.to_pylist() for c in decoded]
    expected = [{**value, "pair": {"f0": 1, "f1": "y"}}, None]
    assert expected == codec.finish_columns(decoded).to_pylist()


@pytest.mark.parametrize(
    ("node", "finishers"),
    [
        (Map(str, int), None),
        (Set(str), None),
        (Struct(tags=Set(str)), None),
        (Struct(a=int), {"b": "avg"}),
        (as_node(int), {"": "avg"}),
        (as_node(float), {"": "avg:str"}),
        (as_node(int), {"": "top"}),
        (as_node(int), {"": "ordered:opaque"}),
        (as_node(int), {"": "median"}),
    ],
)
def test_declarations_that_cannot_be(node: Node, finishers: dict | None) -> None:
    """Only leaves have codecs, and a finish must suit its field."""
    with pytest.raises(DeclarationError):
        leaf_codec(node, finishers)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (int, 2**63),
        (int, "1"),
        (Decimal, Decimal("1E+20")),
        (Decimal, Decimal("1E-19")),
        (Decimal, Decimal("1E+999999")),
        (Decimal, Decimal("1E-999999")),
        (List(int), [1, "x"]),
        (List(int), {1}),
        (List(Set(int)), [[1]]),
        (List(Map(str, int)), [{1: 1}]),
        (Struct(a=int), {"b": 1}),
        (Struct(a=int), [1]),
        (tuple[int, str], (1, 2)),
    ],
)
def test_values_that_do_not_fit_are_refused(declared: object, value: object) -> None:
    """Nothing is stored that would not come back."""
    with pytest.raises(StateError):
        leaf_codec(as_node(declared)).encode(value)


@pytest.mark.parametrize(
    ("declared", "data"),
    [
        (int, b"123"),
        (bytes, b"\x02x"),
        (bytes, b"\x00x"),
        (str, b"\xfe"),
        (Struct(a=int, b=int), b""),
        (Struct(a=int, b=int), b"\x00" * 18),
        (Struct(a=str, b=int), b"\x00" * 9 + b"\x05\x00\x00\x00"),
        (List(Decimal), b"\x91\x01\x01"),
    ],
)
def test_damaged_values_are_refused_on_both_paths(declared: object, data: bytes) -> None:
    """Bytes of another schema are an error, never a wrong value."""
    codec = leaf_codec(as_node(declared))
    with pytest.raises(StateError):
        codec.decode(data)
    with pytest.raises(StateError):
        codec.finish_columns(codec.decode_columns([data]))


def test_columns_are_checked() -> None:
    """Their number and their types."""
    codec = leaf_codec(Struct(a=int, b=float))
    with pytest.raises(StateError, match="2 columns got 1"):
        codec.encode_columns([pa.array([1])])
    with pytest.raises(StateError, match="value column 1"):
        codec.encode_columns([pa.array([1]), pa.array(["x"])])
    narrow = codec.encode_columns([pa.array([1], pa.int8()), pa.array([1])])
    assert narrow == [codec.encode({"a": 1, "b": 1.0})]
