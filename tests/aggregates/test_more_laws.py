"""The laws of conditions, limits and accumulators, against folds in plain Python."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, PACKING, check, held, of_kind, rows_of, run

from atoll import agg
from atoll.aggregates import StructOf
from atoll.errors import DeclarationError, StateError, UserCodeError
from atoll.schema import List, Struct, as_node

INT, BOOL, STR = pa.int64(), pa.bool_(), pa.string()


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.booleans()))
def test_conditions(rows):
    """All and any over the values that are not null; null where all are."""
    for aggregator, function in ((agg.bool_and("v"), all), (agg.bool_or("v"), any)):

        def expected(group, function=function):
            values = held([r["v"] for r in group])
            return function(values) if values else None

        check(aggregator, bool, rows, BOOL, expected)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_min_by_and_max_by(kind, data):
    """Spark's names: the first of the least, the last of the greatest order."""
    rows = data.draw(of_kind(kind))
    python_type, _, arrow = KINDS[kind]

    def of(group, choose):
        orders = held([r["t"] for r in group])
        if not orders:
            return None
        hits = [r["v"] for r in group if r["t"] == choose(orders)]
        return hits[0] if choose is min else hits[-1]

    check(agg.min_by("v", "t"), python_type, rows, arrow, lambda g: of(g, min))
    check(agg.max_by("v", "t"), python_type, rows, arrow, lambda g: of(g, max))


@settings(max_examples=60, deadline=None)
@given(rows=rows_of(st.integers(0, 9)), n=st.integers(1, 5))
def test_limit_by_arrival(rows, n):
    """The first n rows, nulls and all, in every shape."""
    check(
        agg.limit(n, ["v", "id"]),
        List(tuple[int | None, str | None]),
        rows,
        INT,
        lambda group: [(r["v"], r["id"]) for r in group][:n],
    )
    check(
        agg.limit(n, {"x": "v", "k": "id"}),
        List(Struct(k=str | None, x=int | None)),
        rows,
        INT,
        lambda group: [{"x": r["v"], "k": r["id"]} for r in group][:n],
    )
    check(agg.limit(n, "v"), List(int | None), rows, INT, lambda group: [r["v"] for r in group][:n])


@settings(max_examples=40, deadline=None)
@given(rows=rows_of(st.integers(0, 9)), n=st.integers(1, 3), descending=st.booleans())
def test_limit_by_order(rows, n, descending):
    """Sorted by an order that is not shown; equal ones by what is shown."""

    def expected(group):
        kept = [r for r in group if r["t"] is not None]
        kept.sort(key=lambda r: (r["id"] is not None, r["id"] or ""))
        kept.sort(key=lambda r: r["t"], reverse=descending)
        return [r["id"] for r in kept][:n]

    aggregator = agg.limit(n, "id", order_by="t", descending=descending)
    check(aggregator, List(str | None), rows, INT, expected)


def plain_accumulation(function, initial, group, *names):
    """One call per row."""
    value = initial
    for row in group:
        value = function(value, *(row[name] for name in names))
    return value


@settings(max_examples=60, deadline=None)
@given(rows=rows_of(st.integers(-9, 9)))
def test_accumulators_see_rows_one_by_one(rows):
    """A function that is neither associative nor commutative, over a scalar, list and struct."""

    def mixed(current, v, t):
        return (current * 31 + (7 if v is None else v) * 5 + (3 if t is None else t)) % 1009

    def listed(current, v):
        current.append(v)
        return current[-4:]

    def last_change(current, v):
        if v == current["seen"]:
            return current
        return {"seen": v, "changes": current["changes"] + 1}

    start = {"seen": None, "changes": 0}
    cases = [
        (mixed, 1, int, ("v", "t")),
        (listed, [], List(int | None), ("v",)),
        (last_change, start, Struct(changes=int, seen=int | None), ("v",)),
    ]
    for function, initial, node, names in cases:
        wanted = {
            key: plain_accumulation(
                function, list(initial) if isinstance(initial, list) else initial,
                rows.of_key(key), *names,
            )
            for key in set(rows.keys)
        }  # fmt: skip
        aggregator = agg.accumulate(function, *names, initial=initial)
        for fold in (False, True):
            assert run(aggregator, node, rows, INT, fold=fold, travels=True) == wanted


def test_an_accumulator_in_a_struct_of_many():
    """Beside aggregates that combine, in a field of its own."""
    node = as_node(Struct(n=int, digits=int))
    many = StructOf.of(
        {"digits": agg.accumulate(lambda c, v: c * 10 + v, "v", initial=0), "n": agg.count()}
    ).bind(node, [INT, BOOL], PACKING)
    columns = [pa.array([1, 2, 3]), pa.array([True] * 3)]
    starts = pa.array([0]).to_numpy()
    states = many.fold(columns, node, pa.array([0, 1, 2]).to_numpy(), starts)
    once = many.merge([pa.nulls(1, INT), pa.nulls(1, INT)], states)
    assert [column.to_pylist() for column in once] == [[3], [123]]
    assert [column.to_pylist() for column in many.merge(once, states)] == [[6], [123123]]


def test_an_accumulator_begins_again_after_none():
    """Whether the store was between the two rows or not."""
    bound = agg.accumulate(lambda c, v: None if v == 0 else c + v, "v", initial=100).bind(
        as_node(int), [INT], PACKING
    )
    nothing = [pa.nulls(1, INT)]

    def after(old, *values):
        starts = pa.array([0]).to_numpy()
        lifted = bound.lift([pa.array(values, INT)], as_node(int))
        return bound.merge(old, bound.reduce(lifted, starts))

    at_once = after(nothing, 5, 0, 7)
    in_parts = after(after(after(nothing, 5), 0), 7)
    assert at_once[0].to_pylist() == in_parts[0].to_pylist() == [107]


def test_an_accumulator_that_changes_its_value_and_returns_none():
    """None would begin again and lose it; None alone may."""
    node, nothing = as_node(List(int)), [pa.nulls(1, pa.binary())]
    starts = pa.array([0]).to_numpy()

    def after(function, old, *values):
        bound = agg.accumulate(function, "v", initial=[]).bind(node, [INT], PACKING)
        lifted = bound.lift([pa.array(values, INT)], node)
        return bound.merge(old, bound.reduce(lifted, starts))

    def append_only(current, value):
        return [*current, value] if value < 3 else current.append(value)

    def clearing(current, value):
        return [*current, value] if value < 3 else None

    for values in ([3], [1, 2, 3], [3, 1]):
        with pytest.raises(StateError, match="returned None"):
            after(append_only, nothing, *values)
        with pytest.raises(StateError, match="returned None"):
            after(append_only, after(clearing, nothing, 1), *values)
    cleared = after(clearing, nothing, 1, 3, 2)
    assert [PACKING.unpack(node, each) for each in cleared[0].to_pylist()] == [[2]]

    calls = []

    def counted(current, value):
        calls.append(value)
        return clearing(current, value)

    after(counted, after(clearing, nothing, 1, 2), *[1, 2, 3] * 100)
    assert len(calls) <= 2 * 300, "what is looked at again begins where it began again"
    for values in ([3, 1, 4], [3, 3, 4]):
        after(clearing, nothing, *values)
    with pytest.raises(StateError, match="returned None"):
        after(lambda c, v: clearing(c, v) if v < 4 else c.append(v), nothing, 1, 3, 2, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.limit(0, "v"), "of 0 rows"),
        (lambda: agg.limit(1, []), "no columns"),
        (lambda: agg.limit(1, "v", descending=True), "without an order"),
        (lambda: agg.accumulate(1, "v", initial=0), "takes a function"),
        (lambda: agg.accumulate(max, initial=0), "needs an expression"),
        (lambda: agg.bool_and(1), "text, not 1"),
        (lambda: agg.max_by("v", None), "text, not None"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(make, message):
    """With a hint."""
    with pytest.raises(DeclarationError, match=message) as caught:
        make()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("aggregator", "node", "types", "message"),
    [
        (agg.bool_and("v"), bool, [INT], "needs a condition"),
        (agg.bool_or("v"), int, [BOOL], "gives a bool"),
        (agg.max_by("v", "t"), Struct(a=int), [INT, INT], r"agg.max_by\('a', 't'\)|a struct"),
        (agg.limit(1, ["v"]), List(int), [INT], "does not fit a PState"),
        (agg.limit(1, "v"), List(str), [INT], "shows v of type long"),
        (agg.limit(1, "v", order_by="t"), List(int), [pa.list_(INT), INT], "cannot order"),
        (agg.accumulate(max, "v", initial="x"), int, [INT], "initial='x'"),
        (agg.accumulate(max, "v", initial=0), Struct(a=int), [INT], "initial=0"),
        (agg.combine("x", max, "v"), int, [INT], "zero='x'"),
        (agg.combine(1, lambda a, b: a + b, "v"), int, [INT], "combining it with itself"),
    ],
    ids=itertools.count(),
)
def test_what_does_not_fit_is_refused_at_deploy(aggregator, node, types, message):
    """Names the aggregate, says what to change."""
    with pytest.raises(DeclarationError, match=message) as caught:
        aggregator.bind(as_node(node), types, PACKING)
    assert caught.value.hint


def test_what_an_accumulator_may_do_wrong():
    """Its exception and a value that the PState cannot hold are told apart."""
    nothing = [pa.nulls(1, INT)]
    raising = agg.accumulate(lambda c, v: c / 0, "v", initial=1).bind(as_node(int), [INT], PACKING)
    with pytest.raises(UserCodeError, match="ZeroDivisionError"):
        raising.merge(nothing, raising.lift([pa.array([1])], as_node(int)))
    wrong = agg.accumulate(lambda c, v: "x", "v", initial=1).bind(as_node(int), [INT], PACKING)
    with pytest.raises(StateError, match="no int"):
        wrong.merge(nothing, wrong.lift([pa.array([1])], as_node(int)))
