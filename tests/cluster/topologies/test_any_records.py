"""Random records, keys of every type and random cuts into microbatches: state equals a fold.

One module holds a PState per key type; each example appends random records in random pieces with
the topology paused and resumed in between, so that the cuts into microbatches vary. The expected
state is a plain Python dict.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import atoll
from atoll import Map, agg, path

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.just("\0"), max_size=6
) | st.sampled_from(["", "\0", "a\0b", "a", "é", "\U0001f400", "\uffff"])
DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
INSTANTS = st.datetimes(timezones=st.just(dt.UTC)).map(
    lambda at: at.replace(year=min(max(at.year, 2), 9998))
)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, 5e-324, 1e308]) | st.floats(
    allow_nan=False
)
LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
EXACT = st.decimals(-(10**19), 10**19, places=4, allow_nan=False)
PAIRS = st.fixed_dictionaries({"x": st.integers(-2, 2), "y": TEXTS})
HUGES = st.integers(-(2**70), 2**70)

COLUMNS = {
    "text": ("string", str, TEXTS),
    "long": ("long", int, LONGS),
    "float": ("double", float, FLOATS),
    "day": ("date", dt.date, DAYS),
    "instant": ("timestamp", dt.datetime, INSTANTS),
    "exact": ("decimal(38, 18)", Decimal, EXACT),
    "flag": ("boolean", bool, st.booleans()),
    "raw": ("binary", bytes, st.binary(max_size=5)),
    "maybe": ("string", str | None, TEXTS | st.none()),
    "pair": ("struct<x: long, y: string>", tuple[int, str], PAIRS),
}
ROWS = st.lists(
    st.fixed_dictionaries({
        **{name: strategy for name, (_, _, strategy) in COLUMNS.items()},
        "huge": HUGES.map(str),
        "v": st.integers(-1000, 1000),
    }),
    min_size=1,
    max_size=12,
)  # fmt: skip


def _add(row, huge):
    inner, key = huge[row.text], int(row.huge)
    inner[key] = inner.get(key, 0) + row.v


def _module(partitions, vnodes):
    module = atoll.Module("any")
    columns = ", ".join(f"{name} {ddl}" for name, (ddl, _, _) in COLUMNS.items())
    rows = module.depot(
        "rows", f"{columns}, huge string, v long", partitions=partitions, partition_by="text"
    )
    options = {"topology.microbatch.retry.max.attempts": 2}
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    for name, (_, kind, _) in COLUMNS.items():
        sums = mb.pstate(name, Map(kind, int))
        mb.source(rows).aggregate(sums[name], agg.sum("v"))
    nested = mb.pstate("nested", Map(str, Map(int, int)))
    mb.source(rows).aggregate(nested["text"]["long"], agg.sum("v"))
    huge = mb.pstate("huge", Map(str, Map(int, int)))
    mb.source(rows).process(_add, key="text", states=[huge])
    return module


@pytest.mark.parametrize(("partitions", "vnodes"), [(1, 1), (3, 16), (8, 256)])
def test_state_equals_a_fold_and_ranges_come_in_order(cluster, partitions, vnodes):
    """Keys of every type, nested too; whole maps, points and ranges, all in key order."""
    app = cluster.deploy(_module(partitions, vnodes))
    topology, depot = app.topology("mb"), app.depot("rows")
    expected: dict[str, dict] = {name: {} for name in COLUMNS}
    nested: dict[str, dict[int, int]] = {}
    huge: dict[str, dict[int, int]] = {}
    total = 0

    @settings(
        max_examples=6,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        phases=[Phase.generate],  # an example takes a second: report it as it is
    )
    @given(st.lists(ROWS, min_size=1, max_size=3), st.randoms())
    def example(pieces, rng):
        nonlocal total
        topology.pause()
        for piece in pieces:
            depot.append(piece)
            total += len(piece)
            if rng.random() < 0.5:
                topology.resume()
                topology.wait_processed(total)
                topology.pause()
            for row in piece:
                for name in COLUMNS:
                    key = _plain(row[name])
                    expected[name][key] = expected[name].get(key, 0) + row["v"]
                inner = nested.setdefault(row["text"], {})
                inner[row["long"]] = inner.get(row["long"], 0) + row["v"]
                inner = huge.setdefault(row["text"], {})
                inner[int(row["huge"])] = inner.get(int(row["huge"]), 0) + row["v"]
        topology.resume()
        topology.wait_processed(total)
        for name in COLUMNS:
            found = app.pstate(name).select(path.all())
            assert _difference(expected[name], dict(found)) == {}, name
            keys = [key for key, _ in found]
            assert _ordered(expected[name]) == keys
            for key in keys[:3]:
                assert expected[name][key] == app.pstate(name).get(key)
        for text, inner in list(nested.items())[:5]:
            assert sorted(inner.items()) == app.pstate("nested").select(path.key(text).all())
            assert sorted(huge[text].items()) == app.pstate("huge").select(path.key(text).all())
            low, high = min(inner), max(inner)
            middle = app.pstate("nested").select_one(path.key(text).sorted_range(low, high))
            assert {k: v for k, v in sorted(inner.items()) if low <= k < high} == middle

    example()


def _difference(expected, found):
    """The entries that differ: a whole dict would hide them."""
    keys = {*expected, *found}
    pairs = {key: (expected.get(key), found.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _plain(value):
    """A struct column's value as the tuple that the PState's key is."""
    return (value["x"], value["y"]) if isinstance(value, dict) else value


def _ordered(entries):
    """Keys in key order: None first, then the type's own order; -0.0 counts as 0.0."""
    return sorted(entries, key=lambda key: (key is not None, key))
