"""Aggregates run as a topology runs them: rows cut into parts, reduced, merged, stored and read.

What tests of laws share: random rows of every type, and a comparison with a plain fold.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from atoll.codec.values.leaf import leaf_codec
from atoll.codec.values.packing import PACKING
from atoll.engine.exchange.grouping import group
from atoll.schema import as_node

UTC_TIMES = st.datetimes(
    dt.datetime(1900, 1, 1),  # noqa: DTZ001 - the strategy wants naive limits
    dt.datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(dt.UTC),
)
DECIMALS = st.decimals(-(10**6), 10**6, places=4)

KINDS: dict[str, tuple[Any, Any, pa.DataType]] = {
    "int": (int, st.integers(-(2**40), 2**40), pa.int64()),
    "small int": (int, st.integers(-128, 127), pa.int8()),
    "float": (float, st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e6, -3.0]), pa.float64()),
    "bool": (bool, st.booleans(), pa.bool_()),
    "str": (str, st.text("aé\x00漢z", max_size=3), pa.string()),
    "bytes": (bytes, st.binary(max_size=3), pa.binary()),
    "date": (dt.date, st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)), pa.date32()),
    "datetime": (dt.datetime, UTC_TIMES, pa.timestamp("us", "UTC")),
    "decimal": (Decimal, DECIMALS, pa.decimal128(12, 4)),
}
NUMBERS = ["int", "small int", "float", "decimal"]


@dataclass
class Rows:
    """Rows with a key, a value, an order and an id, cut into parts."""

    keys: list[int]
    columns: dict[str, list[Any]]
    cuts: list[int]

    def parts(self) -> list[slice]:
        """The parts, none of them empty."""
        bounds = sorted({0, len(self.keys), *(min(cut, len(self.keys)) for cut in self.cuts)})
        return [slice(a, b) for a, b in pairwise(bounds)]

    def of_key(self, key: int) -> list[dict[str, Any]]:
        """The rows of one key in arrival order."""
        return [
            {name: values[i] for name, values in self.columns.items()}
            for i, k in enumerate(self.keys)
            if k == key
        ]


@st.composite
def rows_of(draw: Any, value: Any, *, nulls: bool = True) -> Rows:
    """Some rows whose values come from a strategy."""
    values = st.one_of(st.none(), value) if nulls else value
    row = st.tuples(
        st.integers(0, 3),
        values,
        st.one_of(st.none(), st.integers(0, 5)),
        st.sampled_from(["a", "b", "c", None]),
    )
    drawn = draw(st.lists(row, min_size=1, max_size=30))
    cuts = draw(st.lists(st.integers(0, 30), max_size=4))
    keys, vs, ts, ids = (list(each) for each in zip(*drawn, strict=True))
    return Rows(keys, {"v": vs, "t": ts, "id": ids}, cuts)


TYPES = {"t": pa.int32(), "id": pa.string(), "true": pa.bool_()}


def run(
    aggregator: Any,
    node: Any,
    rows: Rows,
    value_type: pa.DataType,
    *,
    fold: bool,
    travels: bool = False,
) -> dict:
    """The finished value per key, by parts that are reduced, merged, stored and read again.

    ``travels``: what crosses the exchange is of other types than what is stored.
    """
    node = as_node(node)
    types = [{"v": value_type, **TYPES}[name] for name in aggregator.inputs]
    bound = aggregator.bind(node, types, PACKING)
    codec = leaf_codec(node, aggregator.finishers(node, types))
    assert codec.columns == aggregator.state_types(node, types)
    stored: dict[int, bytes] = {}
    for part in rows.parts():
        keys = pa.array(rows.keys[part])
        inputs = [
            pa.array([True] * len(keys) if name == "true" else rows.columns[name][part], kind)
            for name, kind in zip(aggregator.inputs, types, strict=True)
        ]
        groups = group([keys])
        if fold:
            states = bound.fold(inputs, node, groups.order, groups.starts)
        else:
            lifted = bound.lift(inputs, node)
            assert all(len(state) == len(keys) for state in lifted)
            taken = [state.take(pa.array(groups.order)) for state in lifted]
            states = bound.reduce(taken, groups.starts)
        assert travels or tuple(state.type for state in states) == codec.columns
        touched = keys.take(pa.array(groups.first_rows)).to_pylist()
        old = codec.decode_columns([stored.get(key) for key in touched])
        merged = bound.merge(old, states)
        assert tuple(state.type for state in merged) == codec.columns
        stored.update(zip(touched, codec.encode_columns(merged), strict=True))
    return {key: codec.decode(data) for key, data in stored.items()}


def held(values: list[Any]) -> list[Any]:
    """The values that are not None."""
    return [value for value in values if value is not None]


def check(aggregator: Any, node: Any, rows: Rows, value_type: pa.DataType, expected: Any) -> None:
    """Both ways to run the aggregate give what the plain fold gives."""
    wanted = {key: expected(rows.of_key(key)) for key in set(rows.keys)}
    for fold in (False, True):
        assert run(aggregator, node, rows, value_type, fold=fold) == wanted


def of_kind(kind: str, **options: Any) -> Any:
    """Rows of a kind."""
    return rows_of(KINDS[kind][1], **options)


def check_all(
    aggregator: Any,
    node: Any,
    rows: Rows,
    value_type: pa.DataType,
    holds: Callable[[Any, list[dict[str, Any]]], bool],
) -> None:
    """As :func:`check`, for values that are only near to what the plain fold gives."""
    for fold in (False, True):
        found = run(aggregator, node, rows, value_type, fold=fold)
        for key in set(rows.keys):
            assert holds(found[key], rows.of_key(key))
