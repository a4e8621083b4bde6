"""Declaring aggregates: light imports, clear refusals, and what they say of their results."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from atoll import agg
from atoll.aggregates import StructOf
from atoll.aggregates.kernels.types import accepts
from atoll.arrow_types import leaf_types, node_of
from atoll.codec.values import opaque
from atoll.codec.values.leaf import leaf_codec
from atoll.codec.values.packing import PACKING
from atoll.errors import DeclarationError, StateError, UserCodeError
from atoll.schema import List, Map, Scalar, Set, Struct, as_node

INT, STR, FLOAT, BOOL = pa.int64(), pa.string(), pa.float64(), pa.bool_()


def test_declaring_imports_nothing_heavy():
    """The aggregates are declared without Arrow, numpy or Spark."""
    code = (
        "import sys; from atoll import agg; agg.sum('v'); agg.top_n(3, 'v', ['v']);"
        "print([m for m in ('pyarrow', 'numpy', 'pyspark', 'pandas') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_aggregates_read_as_written():
    """Messages name them as the user wrote them."""
    written = {
        "count()": agg.count(),
        "count(v)": agg.count("v"),
        "sum(a * b)": agg.sum("a * b"),
        "last(v, by=t)": agg.last("v", by="t"),
        "top_n(3, by=v)": agg.top_n(3, by="v", columns=["id", "v"]),
        "combine(max, v)": agg.combine(0, max, "v"),
    }
    assert {text: str(each) for text, each in written.items()} == dict(
        zip(written, written, strict=True)
    )


def test_a_condition_guards_the_input_that_leaves_rows_out():
    """Of an aggregate by an order that is the order: a row without one never counts."""
    guarded = {
        agg.count_if("v > 1"): "CASE WHEN v > 1 THEN true END",
        agg.sum("v").where("v > 1"): "CASE WHEN v > 1 THEN v END",
        agg.avg("v").where("v > 1"): "CASE WHEN v > 1 THEN v END",
        agg.max("v").where("v > 1"): "CASE WHEN v > 1 THEN v END",
        agg.bool_or("v").where("v > 1"): "CASE WHEN v > 1 THEN v END",
        agg.collect_list("v").where("v > 1"): "CASE WHEN v > 1 THEN v END",
        agg.last("v", ignore_nulls=True).where("v > 1"): "CASE WHEN v > 1 THEN v END",
    }
    for aggregate, text in guarded.items():
        assert aggregate.inputs == (text,)
    assert agg.last("v", by="t").where("b").inputs == ("v", "CASE WHEN b THEN t END")
    assert agg.top_n(1, "t", ["v"]).where("b").inputs == ("CASE WHEN b THEN t END", "v")


@pytest.mark.parametrize(
    "sees_nulls",
    [
        agg.first("v"),
        agg.last("v"),
        agg.collect_set("v"),
        agg.limit(1, ["v"]),
        agg.accumulate(max, "v", initial=0),
        agg.struct(n=agg.count()),
        agg.map("k", agg.count()),
    ],
)
def test_no_condition_where_nulls_count(sees_nulls):
    """The stream's where() is what does it."""
    with pytest.raises(DeclarationError, match="sees nulls") as error:
        sees_nulls.where("v > 1")
    assert "stream.where" in error.value.hint


def test_inputs_are_the_expressions():
    """count() asks for a literal, which tells how many rows there are."""
    assert agg.count().inputs == ("true",)
    assert agg.last("v", by="t").inputs == ("v", "t")
    assert agg.top_n(2, by="x", columns={"a": "a + 1", "b": "b"}).inputs == ("x", "a + 1", "b")
    both = StructOf.of({"n": agg.count(), "total": agg.sum("v"), "mean": agg.avg("v")})
    assert both.inputs == ("true", "v")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.sum(3), "text, not 3"),
        (lambda: agg.max(" "), "text, not ' '"),
        (lambda: agg.top_n(0, "v", ["v"]), "of 0 rows"),
        (lambda: agg.top_n(1, "v", []), "no columns"),
        (lambda: agg.top_n(1, "v", ["v"], id="k"), "does not show"),
        (lambda: agg.combine(0, 1, "v"), "takes a zero, a function"),
        (lambda: agg.combine(0, max), "needs an expression"),
        (lambda: agg.combine(0, max, "v", lift=3), "a zero, a function and"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(make, message):
    """A wrong argument is an error of its own line, with a hint."""
    with pytest.raises(DeclarationError, match=message) as caught:
        make()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("aggregator", "node", "types", "message"),
    [
        (agg.count(), str, [BOOL], "gives an int"),
        (agg.count(), Map(str, int), [BOOL], "gives an int"),
        (agg.sum("v"), int, [STR], "needs numbers"),
        (agg.sum("v"), int, [BOOL], "needs numbers"),
        (agg.sum("v"), int, [FLOAT], "does not fit a PState of int"),
        (agg.sum("v"), float, [pa.decimal128(10, 2)], "does not fit a PState of float"),
        (agg.sum("v"), List(int), [INT], "gives a number"),
        (agg.avg("v"), int, [INT], "gives a float"),
        (agg.avg("v"), float, [STR], "needs numbers"),
        (agg.min("v"), int, [STR], "does not fit"),
        (agg.max("v"), Struct(a=int), [pa.struct({"a": INT})], "does not fit"),
        (agg.first("v"), Struct(a=int), [pa.struct({"a": INT})], "the PState holds a struct"),
        (agg.last("v"), Map(str, int), [INT], "gives one value"),
        (agg.last("v", by="t"), int, [INT, pa.list_(INT)], "cannot order rows"),
        (agg.last("v"), int, [STR], "does not fit"),
        (agg.collect_list("v"), Set(int), [INT], "gives a list"),
        (agg.collect_list("v"), List(str), [INT], "does not fit a list"),
        (agg.collect_set("v"), List(int), [INT], "gives a set"),
        (agg.collect_set("v"), Set(str), [INT], "does not fit a set"),
        (agg.top_n(1, "v", ["v"]), List(int), [INT, INT], "does not fit a PState"),
        (agg.top_n(1, "v", "v"), List(tuple[int]), [INT, INT], "shows v of type long"),
        (agg.top_n(1, "v", {"a": "v"}), List(Struct(b=int)), [INT, INT], "does not fit"),
        (agg.top_n(1, "v", ["v", "k"]), List(tuple[int, int]), [INT, INT, STR], "shows k"),
        (agg.top_n(1, "v", ["v"]), List(tuple[int]), [pa.list_(INT), INT], "cannot order"),
        (agg.combine(0, max, "v"), str, [INT], "does not fit"),
        (agg.combine(0, max, "v", "w"), int, [INT, INT], "takes 2 expressions"),
        (agg.combine(0, max, "v", "w"), Struct(a=int, b=str), [INT, INT], "for the field 'b'"),
        (agg.combine(0, max, "v"), Map(str, int), [INT], "gives one value"),
        (StructOf.of({"a": agg.count()}), int, [BOOL], "gives a struct"),
        (StructOf.of({"b": agg.count()}), Struct(a=int), [BOOL], "lacks"),
        (StructOf.of({"a": agg.collect_set("v")}), Struct(a=List(int)), [INT], "adds elements"),
        (StructOf.of({"a": agg.sum("v")}), Struct(a=str), [INT], "gives a number"),
    ],
    ids=itertools.count(),
)
def test_what_does_not_fit_is_refused_at_deploy(aggregator, node, types, message):
    """The error names the aggregate and what the PState holds, and says what to change."""
    with pytest.raises(DeclarationError, match=message) as caught:
        aggregator.bind(as_node(node), types, PACKING)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("aggregator", "types", "node"),
    [
        (agg.count("v"), [STR], Scalar("int")),
        (agg.sum("v"), [pa.int32()], Scalar("int", optional=True)),
        (agg.sum("v"), [pa.decimal128(10, 2)], Scalar("decimal", optional=True)),
        (agg.avg("v"), [INT], Scalar("float", optional=True)),
        (agg.max("v"), [pa.date32()], Scalar("date", optional=True)),
        (agg.last("v"), [pa.list_(STR)], List(str | None)),
        (agg.collect_list("v"), [INT], List(int | None)),
        (agg.collect_set("v"), [STR], Set(str)),
        (agg.combine(0, max, "v"), [INT], Scalar("int", optional=True)),
        (agg.top_n(1, "v", "v"), [INT, INT], List(int | None)),
        (agg.top_n(1, "v", ["v", "k"]), [INT, INT, STR], List(Struct(v=int | None, k=str | None))),
        (agg.top_n(1, "v", ["v + 1", "k"]), [INT, INT, STR], List(tuple[int | None, str | None])),
        (agg.top_n(1, "v", {"a": "v"}), [INT, INT], List(Struct(a=int | None))),
        (StructOf.of({"n": agg.count(), "s": agg.sum("v")}), [BOOL, FLOAT],
         Struct(n=int, s=float | None)),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_results_have_schemas_that_take_them(aggregator, types, node):
    """What an aggregate says it gives is a leaf, or a set, that it also accepts."""
    result = aggregator.result_node(types)
    assert result == node
    aggregator.check(result, types)


def test_physical_columns_are_those_of_the_codec():
    """This layer stands below the codec and names the same types."""
    pair = as_node(tuple[int, tuple[str, float]])
    for node in (pair, List(int), Struct(a=int, b=List(str), c=Struct(d=str), e=pair)):
        assert leaf_types(node) == leaf_codec(node).columns


def test_types_of_spark_fit_schemas():
    """Narrow types widen; what would lose something is refused."""
    assert accepts(Scalar("int"), pa.int8())
    assert accepts(Scalar("float"), pa.int64())
    assert accepts(Scalar("decimal"), pa.int64())
    assert accepts(Scalar("str"), pa.dictionary(pa.int32(), pa.string()))
    assert accepts(as_node(tuple[int, str]), pa.struct({"a": pa.int16(), "b": pa.string()}))
    assert accepts(Struct(a=int, b=str), pa.struct({"b": pa.string(), "a": pa.int32()}))
    assert not accepts(Scalar("int"), pa.float64())
    assert not accepts(Scalar("decimal"), pa.decimal128(30, 20))
    assert not accepts(Scalar("datetime"), pa.timestamp("us"))
    with pytest.raises(DeclarationError, match="no values of type timestamp") as caught:
        node_of(pa.timestamp("us"))
    assert "UTC" in str(caught.value.hint)
    with pytest.raises(DeclarationError, match="no values of type map"):
        node_of(pa.map_(pa.string(), pa.int64()))


def test_bound_aggregates_travel_to_workers():
    """User functions and all."""
    factor = 3
    aggregator = agg.combine(0, lambda a, b: a + b, "v", lift=lambda v: v * factor)
    many = StructOf.of({"a": aggregator, "top": agg.top_n(2, "v", "v"), "n": agg.count()})
    node = Struct(n=int, top=List(int), a=int)
    bound = many.bind(node, [INT, BOOL], PACKING)
    there = cloudpickle.loads(cloudpickle.dumps(bound))
    columns = [pa.array([1, 2]), pa.array([True, True])]
    found = [state.to_pylist() for state in there.lift(columns, node)]
    assert found == [state.to_pylist() for state in bound.lift(columns, node)]
    assert found[0] == [1, 1]
    assert found[2] == [3, 6]


class TestCustomCombiners:
    """What the user's functions may do wrong, and what they may do."""

    def test_an_exception_is_the_users(self):
        """It names the aggregate."""
        bound = agg.combine(0, lambda a, b: a / 0, "v").bind(Scalar("int"), [INT], PACKING)
        with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
            bound.merge([pa.array([1])], [pa.array([2])])
        assert "combine" in caught.value.context["aggregate"]

    @pytest.mark.parametrize(
        ("node", "given"),
        [
            (int, "text"), (int, 2**70), (int, True), (str, 3), (Struct(a=int), {"b": 1}),
            (Struct(a=int), 3), (Struct(a=int), {}), (List(int), ["x"]), (tuple[int, int], (1,)),
        ],
        ids=itertools.count(),
    )  # fmt: skip
    def test_a_wrong_value_is_refused(self, node, given):
        """With the value that was returned and the schema that it must have."""
        node = as_node(node)
        bound = agg.combine(None, lambda a, b: a, "v", lift=lambda _: given).bind(
            node, [INT], PACKING
        )
        with pytest.raises(StateError):
            bound.lift([pa.array([1])], node)

    def test_zero_is_not_shared(self):
        """A function may change its current value in place."""

        def add(current, value):
            current.extend(value)
            return current

        zero: list[int] = []
        node = List(int)
        bound = agg.combine(zero, add, "v", lift=lambda v: [v]).bind(node, [INT], PACKING)
        lifted = bound.lift([pa.array([1, 2])], node)
        absent = [pa.nulls(2, pa.binary())]
        merged = bound.merge(absent, lifted)
        assert [opaque.unpack(node, data) for data in merged[0].to_pylist()] == [[1], [2]]
        assert zero == []

    def test_several_expressions_make_a_struct(self):
        """One for each field, in the order of the fields."""
        node = Struct(low=int | None, high=int | None)
        widest = agg.combine(
            {"low": None, "high": None},
            lambda a, b: {
                "low": min(a["low"], b["low"]) if a["low"] is not None else b["low"],
                "high": max(a["high"], b["high"]) if a["high"] is not None else b["high"],
            },
            "from_id",
            "to_id",
        ).bind(node, [INT, INT], PACKING)
        states = widest.lift([pa.array([3, 1]), pa.array([4, 9])], node)
        reduced = widest.reduce(states, pa.array([0]).to_numpy())
        assert [column.to_pylist() for column in reduced] == [[1], [9]]

    def test_a_struct_expression_fits_by_name(self):
        """Its members may stand in another order."""
        node = Struct(a=int, b=str)
        kind = pa.struct({"b": STR, "a": INT})
        bound = agg.combine(None, lambda a, b: b, "s").bind(node, [kind], PACKING)
        states = bound.lift([pa.array([{"a": 1, "b": "x"}], kind)], node)
        assert [column.to_pylist() for column in states] == [[1], ["x"]]


class TestTuplesAndLists:
    """Values that are more than a scalar."""

    def test_extremes_of_tuples(self):
        """Member by member, a null member least."""
        node = as_node(tuple[int | None, str])
        kind = pa.struct({"x": pa.int32(), "y": STR})
        rows = [{"x": 2, "y": "a"}, {"x": 1, "y": "z"}, {"x": 1, "y": "b"}, {"x": None, "y": "q"}]
        greatest = agg.max("v").bind(node, [kind], PACKING)
        states = greatest.lift([pa.array(rows, kind)], node)
        starts = pa.array([0]).to_numpy()
        assert greatest.reduce(states, starts)[0].to_pylist() == [{"f0": 2, "f1": "a"}]
        least = agg.min("v").reduce(states, starts)[0].to_pylist()
        assert least == [{"f0": None, "f1": "q"}]

    def test_the_last_list(self):
        """A list is one value among others."""
        node = List(as_node(tuple[int, str]))
        kind = pa.list_(pa.struct({"x": INT, "y": STR}))
        bound = agg.last("v", by="t").bind(node, [kind, INT], PACKING)
        rows = pa.array([[{"x": 1, "y": "a"}], None], kind)
        states = bound.lift([rows, pa.array([5, 4])], node)
        reduced = bound.reduce(states, pa.array([0]).to_numpy())
        assert opaque.unpack(node, reduced[1][0].as_py()) == [(1, "a")]

    def test_long_lists_join(self):
        """Through every length of a packed list's header."""
        node = List(int)
        bound = agg.collect_list("v").bind(node, [INT], PACKING)
        old = [pa.nulls(1, pa.binary())]
        expected: list[int] = []
        for count in (15, 1, 65_519, 1, 10):
            part = list(range(count))
            starts = pa.array([0]).to_numpy()
            new = bound.reduce(bound.lift([pa.array(part)], node), starts)
            old = bound.merge(old, new)
            expected += part
            assert opaque.unpack(node, old[0][0].as_py()) == expected

    def test_damaged_lists_are_refused(self):
        """Bytes that are no list are never joined."""
        bound = agg.collect_list("v").bind(List(int), [INT], PACKING)
        with pytest.raises(StateError, match="no packed list"):
            bound.merge([pa.array([b"\xa1x"])], [pa.array([b"\x91\x01"])])
