"""The laws of every aggregate, for random rows of every type and random cuts.

Each aggregate is compared with a fold in plain Python, and cut into parts whose reduced states
are merged; the finished values are read through the leaf's codec, as a store would.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, NUMBERS, PACKING, Rows, check, held, of_kind, rows_of, run

from atoll import agg
from atoll.aggregates import StructOf
from atoll.schema import List, Scalar, Struct


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_counts(kind, data):
    """count() counts rows, count(v) those whose value is not null."""
    rows = data.draw(of_kind(kind))
    arrow = KINDS[kind][2]
    check(agg.count(), int, rows, arrow, len)
    check(agg.count("v"), int, rows, arrow, lambda group: len(held([r["v"] for r in group])))


@pytest.mark.parametrize("kind", NUMBERS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_sum_and_avg(kind, data):
    """Totals and means leave out nulls, and are null where there is nothing else."""
    rows = data.draw(of_kind(kind))
    python_type, _, arrow = KINDS[kind]

    def total(group):
        values = held([r["v"] for r in group])
        return sum(values) if values else None

    def mean(group):
        values = held([r["v"] for r in group])
        return float(sum(values) / len(values)) if values else None

    check(agg.sum("v"), python_type, rows, arrow, total)
    for fold in (False, True):
        found = run(agg.avg("v"), float, rows, arrow, fold=fold)
        for key in set(rows.keys):
            assert found[key] == pytest.approx(mean(rows.of_key(key)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_min_and_max(kind, data):
    """The extremes of every type, nulls left out."""
    rows = data.draw(of_kind(kind))
    python_type, _, arrow = KINDS[kind]
    for aggregator, choose in ((agg.min("v"), min), (agg.max("v"), max)):
        check(
            aggregator,
            python_type,
            rows,
            arrow,
            lambda group, choose=choose: choose(held([r["v"] for r in group]), default=None),
        )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_first_and_last_by_arrival(kind, data):
    """Nulls count like other values, unless they are ignored."""
    rows = data.draw(of_kind(kind))
    python_type, _, arrow = KINDS[kind]
    for aggregator, place in ((agg.first, 0), (agg.last, -1)):
        check(aggregator("v"), python_type, rows, arrow, lambda g, p=place: g[p]["v"])
        check(
            aggregator("v", ignore_nulls=True),
            python_type,
            rows,
            arrow,
            lambda g, p=place: (held([r["v"] for r in g]) or [None])[p],
        )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_first_and_last_by_order(kind, data):
    """The row of extreme order counts; of equal orders the first, or the last; null never."""
    rows = data.draw(of_kind(kind))
    python_type, _, arrow = KINDS[kind]

    def by_order(group, *, last, ignore):
        found = None
        for row in group:
            if row["t"] is None or (ignore and row["v"] is None):
                continue
            if found is None or (row["t"] >= found["t"] if last else row["t"] < found["t"]):
                found = row
        return None if found is None else found["v"]

    for ignore in (False, True):
        for function, last in ((agg.first, False), (agg.last, True)):
            check(
                function("v", by="t", ignore_nulls=ignore),
                python_type,
                rows,
                arrow,
                lambda g, last=last, ignore=ignore: by_order(g, last=last, ignore=ignore),
            )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_order_of_every_type(kind, data):
    """Rows are ordered by values of every type."""
    rows = data.draw(of_kind(kind))
    arrow = KINDS[kind][2]

    def latest(group):
        found = None
        for row in group:
            if row["v"] is not None and (found is None or row["v"] >= found["v"]):
                found = row
        return None if found is None else found["id"]

    check(agg.last("id", by="v"), str, rows, arrow, latest)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_collect_list(kind, data):
    """The values in arrival order, nulls left out; empty where all are null."""
    rows = data.draw(of_kind(kind))
    python_type, _, arrow = KINDS[kind]
    check(
        agg.collect_list("v"),
        List(python_type),
        rows,
        arrow,
        lambda group: held([r["v"] for r in group]),
    )


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(-9, 9)))
def test_combine_keeps_arrival_order(rows):
    """A combiner that is associative but not commutative, over a scalar, a list and a struct."""

    def spans(group):
        values = held([r["v"] for r in group])
        return {"head": values[0], "tail": values[-1], "n": len(values)} if values else None

    span = Struct(head=int | None, tail=int | None, n=int)
    aggregator = agg.combine(
        {"head": None, "tail": None, "n": 0},
        lambda a, b: {
            "head": b["head"] if a["n"] == 0 else a["head"],
            "tail": b["tail"],
            "n": a["n"] + b["n"],
        },
        "v",
        lift=lambda v: None if v is None else {"head": v, "tail": v, "n": 1},
    )
    zero = {"head": None, "tail": None, "n": 0}
    check(aggregator, span, rows, pa.int64(), lambda group: spans(group) or zero)
    check(
        agg.combine([], lambda a, b: a + b, "v", "t", lift=lambda v, t: [(v, t)]),
        List(tuple[int | None, int | None]),
        rows,
        pa.int64(),
        lambda group: [(r["v"], r["t"]) for r in group],
    )
    check(
        agg.combine(0, lambda a, b: a + b, "v"),
        int,
        rows,
        pa.int64(),
        lambda group: sum(held([r["v"] for r in group])),
    )


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 9)), n=st.integers(1, 3), descending=st.booleans())
def test_top_n_of_rows(rows, n, descending):
    """Without an id every row counts; ties go by content, whatever the cuts."""

    def top(group):
        sign = -1 if descending else 1
        kept = [(r["v"], r["id"]) for r in group if r["v"] is not None]
        key = lambda row: (sign * row[0], row[1] is not None, row[1] or "")  # noqa: E731
        return sorted(kept, key=key)[:n]

    as_tuples = agg.top_n(n, by="v", columns=["v", "id"], descending=descending)
    check(as_tuples, List(tuple[int, str | None]), rows, pa.int64(), top)
    as_structs = agg.top_n(n, by="v", columns={"k": "id", "x": "v"}, descending=descending)
    check(
        as_structs,
        List(Struct(x=int, k=str | None)),
        rows,
        pa.int64(),
        lambda group: [{"x": v, "k": k} for v, k in top_by_id_first(group, n, descending)],
    )


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 3)), n=st.integers(1, 3), kind=st.sampled_from([int, float]))
def test_ties_go_by_the_fields_of_the_struct(rows, n, kind):
    """In their order, whatever that of the columns and the cuts, with nulls and floats."""

    def top(group):
        kept = [{"k": r["id"], "x": r["t"], "v": r["v"]} for r in group if r["v"] is not None]
        absent = lambda value: (value is not None, value or 0)  # noqa: E731
        text = lambda value: (value is not None, value or "")  # noqa: E731
        return sorted(kept, key=lambda row: (-row["v"], text(row["k"]), absent(row["x"])))[:n]

    aggregator = agg.top_n(n, by="v", columns={"x": "t", "v": "v", "k": "id"})
    node = List(Struct(k=str | None, x=int | None, v=kind))
    check(aggregator, node, rows, pa.int64(), top)


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 4)), n=st.integers(1, 3), descending=st.booleans())
def test_top_n_with_ties(rows, n, descending):
    """All rows of the n least orders, counted as often as they come: SQL's WITH TIES."""

    def top(group):
        sign = -1 if descending else 1
        kept = [(r["v"], r["id"]) for r in group if r["v"] is not None]
        kept.sort(key=lambda row: (sign * row[0], row[1] is not None, row[1] or ""))
        return [row for row in kept if row[0] in [v for v, _ in kept[:n]]]

    tied = agg.top_n(n, by="v", columns=["v", "id"], descending=descending, with_ties=True)
    check(tied, List(tuple[int, str | None]), rows, pa.int64(), top)


def top_by_id_first(group, n, descending):
    """The top rows where the id is shown first, so that ties go by it."""
    sign = -1 if descending else 1
    kept = [(r["v"], r["id"]) for r in group if r["v"] is not None]
    return sorted(kept, key=lambda r: (sign * r[0], r[1] is not None, r[1] or ""))[:n]


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 9), nulls=False), n=st.integers(1, 3))
def test_top_n_of_ids(rows, n):
    """The latest row of each id counts, where the order of an id only grows."""
    greatest: dict[Any, int] = {}
    for i, (key, row_id) in enumerate(zip(rows.keys, rows.columns["id"], strict=True)):
        greatest[key, row_id] = greatest.get((key, row_id), 0) + rows.columns["v"][i]
        rows.columns["v"][i] = greatest[key, row_id]

    def top(group):
        latest = {r["id"]: (r["id"], r["v"]) for r in group}
        key = lambda row: (-row[1], row[0] is not None, row[0] or "")  # noqa: E731
        return sorted(latest.values(), key=key)[:n]

    aggregator = agg.top_n(n, by="v", columns=["id", "v"], id="id")
    check(aggregator, List(tuple[str | None, int]), rows, pa.int64(), top)

    def tied(group):
        ranked = sorted({r["id"]: r["v"] for r in group}.items(), key=lambda row: -row[1])
        least = [v for _, v in ranked[:n]][-1]
        kept = [row for row in ranked if row[1] >= least]
        return sorted(kept, key=lambda row: (-row[1], row[0] is not None, row[0] or ""))

    aggregator = agg.top_n(n, by="v", columns=["id", "v"], id="id", with_ties=True)
    check(aggregator, List(tuple[str | None, int]), rows, pa.int64(), tied)


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(-9, 9)))
def test_struct_of_many(rows):
    """A struct's fields fold each by itself; the declared order may differ from the leaf's."""
    node = Struct(
        mean=float | None, n=int, items=List(int), latest=int | None, low=int | None, idle=str
    )
    fields = {
        "n": agg.count(),
        "low": agg.min("v"),
        "mean": agg.avg("v"),
        "latest": agg.last("v", by="t"),
        "items": agg.collect_list("v"),
    }

    def expected(group):
        values = held([r["v"] for r in group])
        latest = None
        for row in group:
            if row["t"] is not None and (latest is None or row["t"] >= latest["t"]):
                latest = row
        return {
            "mean": sum(values) / len(values) if values else None,
            "n": len(group),
            "items": values,
            "latest": None if latest is None else latest["v"],
            "low": min(values, default=None),
            "idle": None,
        }

    check(StructOf.of(fields), node, rows, pa.int64(), expected)


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=12))
def test_float_order_is_sparks(values):
    """NaN is the greatest float; an average with a NaN is NaN."""
    rows = Rows(
        [0] * len(values), {"v": values, "t": [0] * len(values), "id": [""]}, [len(values) // 2]
    )
    largest = run(agg.max("v"), float, rows, pa.float64(), fold=True)[0]
    least = run(agg.min("v"), float, rows, pa.float64(), fold=True)[0]
    numbers = [value for value in values if not math.isnan(value)]
    if len(numbers) < len(values):
        assert math.isnan(largest)
    else:
        assert largest == max(numbers)
    assert math.isnan(least) if not numbers else least == min(numbers)


def test_no_rows_give_no_groups():
    """Every aggregate takes an empty batch."""
    starts = np.empty(0, np.int64)
    node = Scalar("int")
    empty = pa.array([], pa.int64())
    for each in (
        agg.count("v"), agg.sum("v"), agg.min("v"), agg.first("v"), agg.last("v"),
        agg.first("v", ignore_nulls=True), agg.combine(0, max, "v"),
    ):  # fmt: skip
        bound = each.bind(node, [pa.int64()], PACKING)
        reduced = bound.reduce(bound.lift([empty], node), starts)
        assert [len(state) for state in bound.merge(reduced, reduced)] == [0] * len(reduced)
    by_time = agg.last("v", by="t").bind(node, [pa.int64(), pa.int64()], PACKING)
    assert len(by_time.reduce(by_time.lift([empty, empty], node), starts)[0]) == 0
    listed = agg.collect_list("v").bind(List(int), [pa.int64()], PACKING)
    assert len(listed.reduce(listed.lift([empty], List(int)), starts)[0]) == 0
    top = agg.top_n(2, "v", ["v"]).bind(List(tuple[int]), [pa.int64()] * 2, PACKING)
    assert len(top.fold([empty, empty], List(tuple[int]), starts, starts)[0]) == 0
