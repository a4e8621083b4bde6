"""Spark DDL to Arrow and back, and where a wrong schema says it is wrong."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.ddl import parse_ddl, to_ddl, type_to_ddl
from atoll.errors import DeclarationError

SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
    "decimal(7)": pa.decimal128(7, 0),
    "decimal(38, 18)": pa.decimal128(38, 18),
}


@pytest.mark.parametrize(("text", "expected"), SIMPLE.items())
def test_simple_types(text: str, expected: pa.DataType) -> None:
    """Each type name, in both cases, means Spark's own Arrow type."""
    assert parse_ddl(f"v {text}") == pa.schema([pa.field("v", expected)])
    assert parse_ddl(f"v {text.upper()}") == pa.schema([pa.field("v", expected)])


def test_fields() -> None:
    """NOT NULL, comments, colons, backticks, types as names and non-ASCII names."""
    schema = parse_ddl(
        r"id: long not null comment 'it\'s, `odd`', "
        '`a ``b``, c` int, date date, größe double COMMENT "x"'
    )
    assert schema.names == ["id", "a `b`, c", "date", "größe"]
    assert [field.nullable for field in schema] == [False, True, True, True]


def test_nested() -> None:
    """Arrays, maps and structs in each other, with NOT NULL inside."""
    schema = parse_ddl("m map<string, array<struct<a: int NOT NULL, b decimal(4,2)>>>")
    inner = pa.struct([pa.field("a", pa.int32(), nullable=False), ("b", pa.decimal128(4, 2))])
    assert schema.field("m").type == pa.map_(pa.string(), pa.list_(inner))


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", 1, "empty"),
        ("  ", 1, "empty"),
        ("k", 2, "type of field 'k'"),
        ("k strin", 3, "'strin' is no type"),
        ("k array<int", 12, "expected '>'"),
        ("k array", 8, "expected '<'"),
        ("k map<int>", 10, "expected ','"),
        ("k int, K long", 8, "declared twice"),
        ("k int)", 6, "found ')'"),
        ("k int v long", 7, "expected ','"),
        ("k int,", 7, "field's name"),
        (", k int", 1, "no field name"),
        ("1k int", 1, "no field name"),
        ("k decimal(40, 1)", 10, "cannot be"),
        ("k decimal(4, 5)", 10, "cannot be"),
        ("k decimal(x)", 11, "precision"),
        ("k int not", 10, "NOT must be followed"),
        ("k int comment c", 15, "quotes"),
        ("k int; drop table t", 6, "';'"),
        ("k struct<>", 10, "no field name"),
        ("k " + "array<" * 40 + "int" + ">" * 40, None, "nested"),
    ],
)
def test_wrong_schemas(text: str, position: int | None, says: str) -> None:
    """A wrong schema is refused with the character's position and a remedy."""
    with pytest.raises(DeclarationError) as caught:
        parse_ddl(text)
    assert says in caught.value.message
    assert caught.value.hint
    if position is not None:
        assert caught.value.context["position"] == position


def test_not_a_text() -> None:
    """A schema that is no text at all is refused, not crashed on."""
    with pytest.raises(DeclarationError):
        parse_ddl(pa.schema([("k", pa.int64())]))  # type: ignore[arg-type]


def test_types_without_a_name() -> None:
    """Arrow types that Spark's DDL cannot name are refused by name."""
    with pytest.raises(DeclarationError, match="duration"):
        type_to_ddl(pa.duration("s"))


types = st.recursive(
    st.sampled_from(list(SIMPLE.values())),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.tuples(inner, inner).map(lambda pair: pa.map_(*pair)),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
            lambda members: pa.struct(
                [pa.field(f"f{i}", kind, null) for i, (kind, null) in enumerate(members)]
            )
        ),
    ),
    max_leaves=6,
)
names = st.text(min_size=1, max_size=8).filter(lambda text: "\0" not in text)
schemas = st.lists(
    st.tuples(names, types, st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=lambda field: field[0].lower(),
).map(lambda fields: pa.schema([pa.field(*field) for field in fields]))


@given(schemas)
def test_round_trip(schema: pa.Schema) -> None:
    """Writing a schema as DDL and reading it back changes nothing, whatever the names."""
    assert parse_ddl(to_ddl(schema)) == schema


@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    """No text makes the parser fail in another way than by refusing it."""
    with contextlib.suppress(DeclarationError):
        assert parse_ddl(text).names
