"""The quick way of ``top_n``, over plain forms, gives the bytes of the long one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, PACKING

from atoll import List, Struct, agg
from atoll.codec.values.opaque import plain_forms_sort
from atoll.errors import StateError
from atoll.schema import as_node

LONG = replace(PACKING, plain=None)
QUICK_KINDS = sorted(set(KINDS) - {"float", "decimal"})


def test_which_forms_sort():
    """Floats have NaN, and decimals are kept as text."""
    assert all(plain_forms_sort(as_node(KINDS[kind][0])) for kind in QUICK_KINDS)
    for kind in ("float", "decimal"):
        assert not plain_forms_sort(as_node(KINDS[kind][0]))
        assert not plain_forms_sort(as_node(Struct(a=int, b=KINDS[kind][0])))
    assert plain_forms_sort(as_node(Struct(a=int, b=tuple[str, int])))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_same_bytes(data):
    """Of every kind of order and value, of structs, tuples and single values, with nulls."""
    draw = data.draw
    order, value = (draw(st.sampled_from(sorted(KINDS))) for _ in range(2))
    count = draw(st.integers(1, 20))

    def column(kind):
        values = st.lists(st.one_of(st.none(), KINDS[kind][1]), min_size=3, max_size=3)
        few = draw(values)
        picked = [few[draw(st.integers(0, 2))] for _ in range(count)]
        return pa.array(picked, KINDS[kind][2])

    columns = [column(order), column(value), column("str")]
    shown = draw(st.sampled_from(["struct", "tuple", "alone"]))
    kind = KINDS[value][0]
    node, names = {
        "struct": (List(Struct(b=str | None, a=kind | None)), {"a": "a", "b": "b"}),
        "tuple": (List(tuple[kind | None, str | None]), ["a", "b"]),
        "alone": (List(kind), "a"),
    }[shown]
    if shown == "alone":
        del columns[2]
    made = agg.top_n(
        draw(st.integers(1, 3)),
        by="o",
        columns=names,
        id=draw(st.sampled_from([None, "a"])),
        descending=draw(st.booleans()),
        with_ties=draw(st.booleans()),
    )
    types = [each.type for each in columns]
    results = []
    for packing in (PACKING, LONG):
        bound = made.bind(as_node(node), types, packing)
        cut = count // 2
        parts = [[each.slice(0, cut) for each in columns], [each.slice(cut) for each in columns]]
        states = []
        for part in parts:
            rows = np.arange(len(part[0]))
            if len(rows):
                starts = np.array(sorted({0, len(rows) // 2}))
                folded = bound.fold(part, as_node(node), rows, starts)
                lifted = bound.reduce(bound.lift(part, as_node(node)), starts)
                assert folded[0].to_pylist() == lifted[0].to_pylist()
                states.append(bound.reduce(folded, np.array([0])))
        merged = [pa.nulls(1, states[0][0].type)]
        for state in states:
            merged = bound.merge(merged, state)
        results.append(merged[0].to_pylist())
    assert results[0] == results[1]


@pytest.mark.parametrize("damage", [b"\x93\x01\x02\x03", b"\x91\x91\x05", b"\xc1", b"\x92"])
def test_damage_is_told(damage):
    """Not only by the long way."""
    node = as_node(List(tuple[int, str]))
    bound = agg.top_n(2, by="o", columns=["a", "b"]).bind(
        node, [pa.int64(), pa.int64(), pa.string()], PACKING
    )
    rows = [pa.array([1]), pa.array([2]), pa.array(["x"])]
    state = bound.lift(rows, node)
    with pytest.raises(StateError):
        bound.merge([pa.array([damage], state[0].type)], state)
