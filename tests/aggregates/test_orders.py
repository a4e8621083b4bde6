"""Orders of several terms, against sorts in plain Python; and what may be written as one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, check, of_kind, rows_of

from atoll import List, Struct, agg
from atoll.codec.keys.orders import order_bytes
from atoll.codec.values.packing import PACKING
from atoll.errors import DeclarationError
from atoll.schema import as_node

INT = pa.int64()


def _first(row):
    return (row["v"] is not None, row["v"] or 0)


def _id(row):
    return (row["id"] is not None, row["id"] or "")


def _ranked(group):
    """By falling time, then by id, then by value: null least; rows without a time left out."""
    rows = [row for row in group if row["t"] is not None]
    rows.sort(key=_first)
    rows.sort(key=_id)
    rows.sort(key=lambda row: row["t"], reverse=True)
    return rows


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 3)), n=st.integers(1, 4), turned=st.booleans())
def test_lists_by_several_terms(rows, n, turned):
    """``limit`` and ``top_n``, each way round, under the names of the columns and as tuples."""
    by = ["-t", "id", "v"]
    other = ["t", "-id", "-v"]

    def expected(group):
        return [{"t": row["t"], "id": row["id"], "v": row["v"]} for row in _ranked(group)][:n]

    node = List(Struct(t=int, id=str | None, v=int | None))
    columns = ["t", "id", "v"]
    made = agg.limit(n, columns, order_by=other if turned else by, descending=turned)
    check(made, node, rows, INT, expected)
    made = agg.top_n(n, other if not turned else by, columns, descending=not turned)
    check(made, node, rows, INT, expected)
    check(
        agg.top_n(n, other, columns),
        List(tuple[int, str | None, int | None]),
        rows,
        INT,
        lambda group: [tuple(each.values()) for each in expected(group)],
    )


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 3)))
def test_one_row_by_several_terms(rows):
    """The value, or the whole row, of the least and the greatest; of equal ones by arrival."""

    def expected(group, *, least):
        kept = [row for row in group if row["t"] is not None]
        if not kept:
            return None
        keys = [(-row["t"], _id(row)) for row in kept]
        wanted = min(keys) if least else max(keys)
        hits = [row for row, key in zip(kept, keys, strict=True) if key == wanted]
        return hits[0] if least else hits[-1]

    for made, least in ((agg.min_by, True), (agg.max_by, False)):
        check(
            made("v", ["-t", "id"]),
            int | None,
            rows,
            INT,
            lambda group, least=least: (expected(group, least=least) or {"v": None})["v"],
        )
        check(
            made(["v", "id", "t"], ["-t", "id"]),
            Struct(t=int | None, v=int | None, id=str | None),
            rows,
            INT,
            lambda group, least=least: _row(expected(group, least=least)),
        )


def _row(row):
    return None if row is None else {name: row[name] for name in ("t", "v", "id")}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_bytes_sort_as_the_values(kind, data):
    """Of every kind, rising and falling, with another term behind it."""
    falls = data.draw(st.booleans())
    _, values, arrow = KINDS[kind]
    pairs = data.draw(st.lists(st.tuples(values, st.integers(0, 2)), min_size=2, max_size=12))
    columns = [pa.array([v for v, _ in pairs], arrow), pa.array([n for _, n in pairs])]
    made = order_bytes(columns, (falls, False)).to_pylist()
    by_bytes = sorted(range(len(pairs)), key=lambda at: made[at])
    plain = sorted(range(len(pairs)), key=lambda at: pairs[at][1])
    plain.sort(key=lambda at: pairs[at][0], reverse=falls)
    assert [pairs[at] for at in by_bytes] == [pairs[at] for at in plain]


@settings(max_examples=20, deadline=None)
@given(rows=of_kind("str"), n=st.integers(1, 3))
def test_a_falling_text(rows, n):
    """Which no minus of SQL could turn."""

    def expected(group):
        return sorted((row["v"] for row in group if row["v"] is not None), reverse=True)[:n]

    check(agg.limit(n, "v", order_by="-v"), List(str), rows, pa.string(), expected)


@pytest.mark.parametrize("by", ["-a + b", ["x", "-a.b * 2"], "-(a) + (b)", "- f(a) - 1"])
def test_a_minus_that_could_be_a_sign(by):
    """Is refused, with both ways to write it."""
    with pytest.raises(DeclarationError, match="falls or begins with a negative number") as caught:
        agg.max_by("v", by)
    assert '"-(' in str(caught.value.hint)


def test_what_may_be_written():
    """Columns, calls and brackets fall; brackets around a minus make it a value."""
    assert str(agg.max_by("v", ["-a.b", "-(a + b)", "- hour(at)", "(-a + b)"])) == (
        "max_by(v, [-a.b, -(a + b), -hour(at), (-a + b)])"
    )
    assert str(agg.top_n(3, "price", "id")) == "top_n(3, by=price)"
    assert str(agg.limit(3, "id", order_by=["-at", "id"])) == "limit(3, order_by=[-at, id])"
    with pytest.raises(DeclarationError, match="holds a struct") as caught:
        agg.last("v", ["-t", "id"]).check(as_node(Struct(a=int)), [INT, INT, pa.string()])
    assert "agg.last('a', ['-t', 'id'])" in str(caught.value.hint)
    assert agg.last("v", by="-t").where("v > 1").inputs == ("v", "CASE WHEN v > 1 THEN t END")
    for by in ([], [""], [3], 3):
        with pytest.raises(DeclarationError):
            agg.top_n(1, by, "id")
    with pytest.raises(DeclarationError, match="no names for the fields"):
        agg.max_by(["a + 1", "b"], "t")
    made = agg.max_by("v", ["t", "s"])
    with pytest.raises(DeclarationError, match="cannot order rows by"):
        made.check(as_node(int), [INT, INT, pa.list_(INT)])
    assert PACKING.orders is order_bytes
