"""Which columns can go into a depot's, by their types alone."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from atoll.codec.records.codec import RecordCodec
from atoll.ddl import parse_ddl
from atoll.errors import DeclarationError
from atoll.steps.append_to.fitting import check_columns, widens

SIMPLE = [
    "boolean",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "decimal(5, 2)",
    "decimal(12, 2)",
    "decimal(22, 2)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]
WIDENED = {
    "byte": {"short", "int", "long", "float", "double", "decimal(5, 2)"},
    "short": {"int", "long", "float", "double"},
    "int": {"long", "double"},
    "float": {"double"},
    "decimal(5, 2)": {"decimal(12, 2)", "decimal(22, 2)"},
    "decimal(12, 2)": {"decimal(22, 2)"},
}
for _small in ("byte", "short", "int"):
    WIDENED[_small] |= {"decimal(12, 2)", "decimal(22, 2)"}
WIDENED["long"] = {"decimal(22, 2)"}
EXTREMES = {
    "byte": [-128, 127],
    "short": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [1.5, -0.0],
}


def _type(ddl):
    return parse_ddl(f"c {ddl}").field("c").type


def _check(depot, rows):
    step = SimpleNamespace(
        depot=SimpleNamespace(name="d", schema=parse_ddl(depot)), place="here.py:1"
    )
    check_columns(step, parse_ddl(rows))


@pytest.mark.parametrize("found", SIMPLE)
def test_a_column_fits_itself_and_what_is_wider(found):
    """Against a table written out by hand: nothing that could lose a value."""
    fits = {wanted for wanted in SIMPLE if widens(_type(found), _type(wanted))}
    assert fits == {found} | WIDENED.get(found, set())


@pytest.mark.parametrize("found", EXTREMES)
def test_the_extremes_of_a_type_get_into_what_is_wider(found):
    """The check at deploy promises what the depot's own check of values holds."""
    column = pa.table({"c": pa.array(EXTREMES[found], _type(found))})
    for wanted in WIDENED[found]:
        checked = RecordCodec(parse_ddl(f"c {wanted}")).from_arrow(column)
        assert checked.refused_count == 0, (found, wanted)
        assert checked.batch.column(0).to_pylist() == EXTREMES[found]


def test_nested_columns_fit_member_by_member():
    """Structs by the names of their fields, arrays and maps by what they hold."""
    pairs = [
        ("array<int>", "array<long>", True),
        ("array<long>", "array<int>", False),
        ("map<string, int>", "map<string, double>", True),
        ("map<int, int>", "map<string, int>", False),
        ("struct<a: int>", "struct<a: long, b: string>", True),
        ("struct<a: int>", "struct<a: long, b: string NOT NULL>", False),
        ("struct<a: int, z: int>", "struct<a: long>", False),
        ("array<int>", "int", False),
        ("string", "struct<a: int>", False),
    ]
    for found, wanted, fits in pairs:
        assert widens(_type(found), _type(wanted)) is fits, (found, wanted)
    assert widens(pa.null(), _type("array<int>"))


def test_columns_by_name_in_any_order():
    """One that may be null may be missing."""
    _check("a long, b string, c date", "b string, a int")
    _check("a long NOT NULL, b string", "a long")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a long, z int", "has no column 'z'"),
        ("a string, b string", "holds long in column 'a', and the rows hold string"),
        ("b string", "needs a value in column 'a'"),
    ],
)
def test_a_misfit_is_told_with_the_place_and_the_schema(rows, words):
    """Unknown, of another type, or missing where a value must be."""
    with pytest.raises(DeclarationError, match=words) as caught:
        _check("a long NOT NULL, b string", rows)
    assert caught.value.context["declared"] == "here.py:1"
    assert "a BIGINT NOT NULL, b STRING" in caught.value.hint
