"""Holds that Arrow columns become the values that users see: maps dicts, tuples tuples."""

from __future__ import annotations

import random

import pyarrow as pa

from atoll.python_values import is_tuple, python_rows, python_values


def a_type(rng, depth=3):
    """A random type, nested."""
    names = {4: ["a", "b"], 5: ["f0", "f1"], 6: ["f1", "f0"]}
    kind = rng.randrange(8 if depth else 2)
    if kind == 0:
        return pa.int64()
    if kind == 1:
        return pa.string()
    inner = a_type(rng, depth - 1)
    if kind == 2:
        return pa.list_(inner)
    if kind == 3:
        return pa.map_(pa.string(), inner)
    if kind == 7:
        return pa.list_(inner, 2)
    return pa.struct([(name, a_type(rng, depth - 1)) for name in names[kind]])


def a_value(rng, kind):
    """A value of a type, as users see it."""
    if rng.random() < 0.2:
        return None
    if kind == pa.int64():
        return rng.randrange(9)
    if kind == pa.string():
        return rng.choice("xyz")
    if pa.types.is_map(kind):
        return {key: a_value(rng, kind.item_type) for key in rng.sample("pqrs", rng.randrange(4))}
    if pa.types.is_fixed_size_list(kind):
        return [a_value(rng, kind.value_type) for _ in range(2)]
    if pa.types.is_list(kind):
        return [a_value(rng, kind.value_type) for _ in range(rng.randrange(4))]
    if is_tuple(kind):
        return tuple(a_value(rng, field.type) for field in kind)
    return {field.name: a_value(rng, field.type) for field in kind}


def test_values_of_any_type_slice_and_chunk():
    """There and back."""
    rng = random.Random(5)
    for _ in range(600):
        kind = a_type(rng)
        values = [a_value(rng, kind) for _ in range(rng.randrange(8))]
        column = pa.array(values, kind)
        start = rng.randrange(len(values) + 1)
        length = rng.randrange(len(values) - start + 1)
        part = values[start : start + length]
        assert python_values(column) == values
        assert python_values(column.slice(start, length)) == part
        chunks = pa.chunked_array([column, column.slice(start, length)])
        assert python_values(chunks) == values + part
        assert python_rows(pa.table({"c": column})) == [{"c": value} for value in values]


def test_maps_that_no_dict_can_be():
    """Are lists of pairs: nothing of them is lost."""
    twice = pa.array([[("a", 1), ("a", 2)], [("b", 3)]], pa.map_(pa.string(), pa.int64()))
    assert python_values(twice) == [[("a", 1), ("a", 2)], {"b": 3}]
    lists = pa.array([[([1], 2)]], pa.map_(pa.list_(pa.int64()), pa.int64()))
    assert python_values(lists) == [[([1], 2)]]
    tuples = pa.map_(pa.struct([("f0", pa.int64()), ("f1", pa.string())]), pa.int64())
    assert python_values(pa.array([{(1, "a"): 2}], tuples)) == [{(1, "a"): 2}]
