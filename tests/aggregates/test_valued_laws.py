"""Sets, distinct counts, maps and structs in one value: as a plain fold, however rows are cut."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, held, rows_of, run

from atoll import agg
from atoll.aggregates.valued.columns import as_column
from atoll.codec.keys.elements import encode_element
from atoll.schema import as_node


def found(aggregator, rows, kind):
    """What it comes to for each key, both ways to run it."""
    made = as_column(aggregator)
    types = {"v": kind, "t": pa.int32(), "id": pa.string(), "true": pa.bool_()}
    node = made.result_node([types[name] for name in made.inputs])
    first, second = (run(made, node, rows, kind, fold=fold) for fold in (False, True))
    assert first == second
    return first


def elements(values, scalar):
    """The distinct values as a Set of a PState has them."""
    by_code = {encode_element(value, scalar): value for value in values}
    return [by_code[code] for code in sorted(by_code)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_they_are_plain_folds(kind, data):
    """Of every kind of scalars, as elements and as keys; nulls are left out."""
    python, strategy, arrow = KINDS[kind]
    scalar = as_node(python)
    rows = data.draw(rows_of(strategy))
    keys = set(rows.keys)
    sets = {key: elements(held([r["v"] for r in rows.of_key(key)]), scalar) for key in keys}
    assert found(agg.collect_set("v"), rows, arrow) == sets
    counts = {key: len(each) for key, each in sets.items()}
    assert found(agg.count_distinct("v"), rows, arrow) == counts

    nested = agg.map("v", agg.struct(n=agg.count(), mean=agg.avg("t"), ids=agg.collect_set("id")))
    expected = {}
    for key in keys:
        groups = defaultdict(list)
        for row in rows.of_key(key):
            if row["v"] is not None:
                groups[encode_element(row["v"], scalar)].append(row)
        expected[key] = {part[0]["v"]: shown(part) for _, part in sorted(groups.items())}
        expected[key] = list(expected[key].items())
    maps = {key: list(each.items()) for key, each in found(nested, rows, arrow).items()}
    assert maps == expected


def shown(rows):
    """What the struct of a map's entry comes to."""
    times = held([row["t"] for row in rows])
    mean = sum(times) / len(times) if times else None
    ids = sorted({row["id"] for row in rows if row["id"] is not None})
    return {"n": len(rows), "mean": mean, "ids": ids}
