"""Types in messages are told as users write them."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from atoll import List, Map, Set, Struct
from atoll.ddl import columns_in_words, parse_ddl, type_in_words
from atoll.schema import as_node

NODES = {
    "int": int,
    "str | None": str | None,
    "Decimal": decimal.Decimal,
    "datetime": dt.datetime,
    "tuple[int, str | None]": tuple[int, str | None],
    "Map(str, Map(date, int))": Map(str, Map(dt.date, int)),
    "Set(bytes)": Set(bytes),
    "List(Struct(a=int, b=List(float)))": List(Struct(a=int, b=List(float))),
}


@pytest.mark.parametrize("words", NODES)
def test_a_schema_reads_as_it_was_declared(words):
    """As text and as repr, alone and inside of another, and evaluates to an equal one."""
    node = as_node(NODES[words])
    assert str(node) == repr(node) == words
    names = {"Map": Map, "Set": Set, "List": List, "Struct": Struct}
    names |= {"date": dt.date, "datetime": dt.datetime, "Decimal": decimal.Decimal}
    assert as_node(eval(words, names)) == node


def test_columns_read_as_they_were_declared():
    """Every type of a schema, nested, with names that need quotes; nullability is not told."""
    ddl = (
        "a boolean, b byte, c short, d int, e long, f float, g double, h decimal(10,2), i string, "
        "j binary, k date, l timestamp, m timestamp_ntz, n array<long>, o map<string, long>, "
        "p struct<`x y`: long, Zed: array<struct<q: int>>>"
    )
    assert columns_in_words(parse_ddl(ddl)) == ddl
    assert columns_in_words(parse_ddl("a long NOT NULL")) == "a long"


def test_what_no_schema_has_is_told_as_arrow_s():
    """A type that cannot be declared still reads."""
    assert type_in_words(pa.list_(pa.duration("s"))) == "array<duration[s]>"
