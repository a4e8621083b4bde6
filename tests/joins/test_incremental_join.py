"""Joins over microbatches: equal to a plain join of all records, however they are cut."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atoll
from atoll import start
from atoll.errors import DeployError
from atoll.testing import TopologyTestDriver

LEFT = "k long, shop string, v long"
RIGHT = "id long, name string, w double"
OUT = "k long, shop string, v long, id long, name string, w double"


def sources(module, partitions=2):
    """Two depots that are divided by the keys that are joined, and what comes out."""
    left = module.depot("left", LEFT, partition_by="k", partitions=partitions)
    right = module.depot("right", RIGHT, partition_by="id", partitions=partitions)
    return left, right, module.depot("out", OUT, partitions=1)


def module_of(unique, vnodes=4, partitions=2, options=None):
    """``left.k = right.id`` into the depot ``out``."""
    module = atoll.Module("joins")
    left, right, out = sources(module, partitions)
    mb = module.microbatch("mb", vnode_count=vnodes, options=options or {})
    rows = mb.source(left, start_from=start.beginning())
    others = mb.source(right, start_from=start.beginning())
    rows.incremental_join(others, on="left.k = right.id", unique=unique).append_to(out)
    return module


def read(driver, depot="out"):
    """All records of a depot with one partition, as tuples."""
    there = driver.depot(depot)
    end = there.end_offsets()[0]
    return [tuple(each.values()) for each in there.read(0, 0, end).to_pylist()] if end else []


def joined(records, unique):
    """Every pair of equal keys that are not null; of a unique side only the first of a key."""
    sides = {"left": [], "right": []}
    seen = set()
    for side, record in records:
        key = record["k" if side == "left" else "id"]
        if key is None or (side == unique and key in seen):
            continue
        if side == unique:
            seen.add(key)
        sides[side].append(record)
    return Counter(
        (*one.values(), *other.values())
        for one, other in itertools.product(sides["left"], sides["right"])
        if one["k"] == other["id"]
    )


@st.composite
def cases(draw):
    """Records of both sides in stretches, and everything that must not show."""
    count = draw(st.integers(1, 40))
    keys = st.one_of(st.none(), st.integers(-2, 4), st.sampled_from([0, 0, 2**40]))
    records = []
    for number in range(count):
        if draw(st.booleans()):
            shop = draw(st.sampled_from(["north", "", None]))
            records.append(("left", {"k": draw(keys), "shop": shop, "v": number}))
        else:
            name = draw(st.sampled_from(["ann", None]))
            w = draw(st.sampled_from([None, float(number)]))
            records.append(("right", {"id": draw(keys), "name": name, "w": w}))
    cuts = sorted(draw(st.sets(st.integers(0, count), max_size=6)) | {0, count})
    return {
        "stretches": [records[a:b] for a, b in itertools.pairwise(cuts)],
        "unique": draw(st.sampled_from([None, "left", "right"])),
        "vnodes": draw(st.sampled_from([1, 3, 8])),
        "partitions": draw(st.integers(1, 3)),
        "parallelism": draw(st.integers(1, 3)),
        "limit": draw(st.sampled_from([2, 1_000])),
        "failing": draw(st.sets(st.integers(0, 6), max_size=3)),
        "restarting": draw(st.sets(st.integers(0, 6), max_size=1)),
        "resizing": draw(st.dictionaries(st.integers(0, 6), st.integers(1, 3), max_size=2)),
    }


def run(case):
    """What comes out of the case."""
    options = {
        "depot.microbatch.max.records": case["limit"],
        "pstate.history.seconds": 0,
        "pstate.checkpoint.interval.commits": 2,
    }
    module = module_of(case["unique"], case["vnodes"], case["partitions"], options)
    with TopologyTestDriver(module, engine="inline", parallelism=3) as driver:
        driver.app.cluster.resize("mb", case["parallelism"])
        for number, stretch in enumerate(case["stretches"]):
            for side, record in stretch:
                driver.depot(side).append([record])
            if number in case["failing"]:
                driver.fail_next_attempt(after_work=True)
            if number in case["resizing"]:
                driver.app.cluster.resize("mb", case["resizing"][number])
            driver.run_until_idle()
            if number in case["restarting"]:
                driver.restart()
        return Counter(read(driver))


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases())
def test_a_join_equals_that_of_all_records(case):
    """Each pair once, whatever the cuts, vnodes, units, retries and moves."""
    records = [each for stretch in case["stretches"] for each in stretch]
    assert run(case) == joined(records, case["unique"])


def test_a_row_comes_out_when_the_later_of_the_two_came():
    """And never again."""
    with TopologyTestDriver(module_of(None), engine="inline") as driver:
        driver.depot("left").append([{"k": 1, "shop": "north", "v": 1}])
        driver.microbatch()
        assert read(driver) == []
        driver.depot("right").append([{"id": 1, "name": "ann", "w": 0.5}])
        driver.fail_next_attempt(after_work=True)
        driver.microbatch()
        assert read(driver) == [(1, "north", 1, 1, "ann", 0.5)]
        driver.depot("left").append([{"k": 1, "shop": "south", "v": 2}])
        driver.microbatch()
        assert read(driver)[1:] == [(1, "south", 2, 1, "ann", 0.5)]


def entries(driver):
    """How many rows the join keeps."""
    (state,) = (each for name, each in driver.app._pstates.items() if name.startswith("_mb-join"))
    total = 0
    for vnode in range(state.spec.vnode_count):
        total += sum(1 for _ in state.view().vnode(vnode).scan())
    return total


def test_a_unique_side_bounds_the_state():
    """Rows that waited are removed when their partner comes, and later ones are never kept."""
    with TopologyTestDriver(module_of("right"), engine="inline") as driver:
        rows = [{"k": key, "shop": "north", "v": v} for v in range(100) for key in (1, 2)]
        driver.depot("left").append(rows)
        driver.microbatch()
        assert entries(driver) == 200
        driver.depot("right").append([{"id": 1, "name": "ann", "w": 0.0}])
        driver.microbatch()
        assert [row[2] for row in read(driver)] == list(range(100))
        assert entries(driver) == 101
        driver.depot("left").append(rows)
        driver.microbatch()
        assert len(read(driver)) == 200
        assert entries(driver) == 201


def test_of_a_unique_side_the_first_row_stays():
    """Also when both come in one microbatch, or the second much later."""
    with TopologyTestDriver(module_of("right"), engine="inline") as driver:
        driver.depot("right").append(
            [{"id": 1, "name": "ann", "w": 0.0}, {"id": 1, "name": "bob", "w": 0.0}]
        )
        driver.microbatch()
        driver.depot("right").append([{"id": 1, "name": "cyd", "w": 0.0}])
        driver.depot("left").append([{"k": 1, "shop": "north", "v": 1}])
        driver.microbatch()
        assert [row[4] for row in read(driver)] == ["ann"]


WIDE = (
    "a string, b int, at timestamp, day date, price decimal(10,2), ratio float, "
    "raw binary, tags array<string>, place struct<x: int, y: string>"
)


@pytest.mark.parametrize("unique", [None, "left", "right"])
def test_columns_come_back_as_they_were(unique):
    """Every type that can be kept, null among them, under two keys of which one is text."""
    module = atoll.Module("wide")
    left = module.depot("left", WIDE, partitions=1)
    right = module.depot("right", "a string, b long", partitions=1)
    out = module.depot("out", WIDE, partitions=1)
    mb = module.microbatch("mb", vnode_count=3)
    rows = mb.source(left).incremental_join(mb.source(right), on=["a", "b"], unique=unique)
    rows.append_to(out)
    record = {
        "a": "zero \x00 and " + "long" * 150,
        "b": 7,
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC),
        "day": dt.date(2026, 1, 2),
        "price": Decimal("-12345678.90"),
        "ratio": 0.5,
        "raw": b"\x00\xff",
        "tags": ["x", None],
        "place": {"x": 1, "y": None},
    }
    empty = {"a": "", "b": -1, **dict.fromkeys(list(record)[2:])}
    keys = [{"a": each["a"], "b": each["b"]} for each in (record, empty)]
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("left").append([record, empty])
        driver.microbatch()
        driver.depot("right").append([*keys, {"a": "", "b": 7}])
        driver.microbatch()
        got = driver.depot("out").read(0, 0, 2).to_pylist()
        assert sorted(got, key=lambda each: each["b"]) == [empty, record]


def test_streams_of_any_kind_are_joined():
    """A stream with itself, unions, rows of state steps of other depths, two joins in a row."""
    module = atoll.Module("kinds")
    left, right, out = sources(module)
    doubled = module.depot("doubled", "k long, v long, w long", partitions=1)
    thrice = module.depot("thrice", "k long, a long, b long, c long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    rows = mb.source(left)
    late = rows.map(lambda row: row, emits=LEFT).materialize()
    again = late.map(lambda row: {"k": row.k, "w": row.v}, emits="k long, w long")
    rows.map(lambda row: {"k": row.k, "v": row.v}, emits="k long, v long").incremental_join(
        again, on="k"
    ).append_to(doubled)
    rows.union(late).incremental_join(mb.source(right), on="left.k = right.id").append_to(out)
    one = rows.map(lambda row: {"k": row.k, "a": row.v}, emits="k long, a long")
    two = rows.map(lambda row: {"k": row.k, "b": row.v}, emits="k long, b long")
    three = rows.map(lambda row: {"k": row.k, "c": row.v}, emits="k long, c long")
    pairs = one.incremental_join(two, on="k")
    pairs.incremental_join(three, on="k").append_to(thrice)
    with TopologyTestDriver(module, engine="inline") as driver:
        for v in range(3):
            driver.depot("left").append([{"k": 1, "shop": "", "v": v}])
            driver.microbatch()
        driver.depot("right").append([{"id": 1, "name": "ann", "w": 0.0}])
        driver.run_until_idle()
        expected = list(itertools.product([1], range(3), range(3)))
        assert sorted(read(driver, "doubled")) == expected
        assert sorted(row[2] for row in read(driver)) == [0, 0, 1, 1, 2, 2]
        assert len(set(read(driver, "thrice"))) == len(read(driver, "thrice")) == 27


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("k", "does not have"),
        ("left.shop = right.id", "compares 'shop'"),
        ("left.k = right.nothing", "'nothing'"),
    ],
)
def test_columns_are_checked_when_it_is_deployed(on, words):
    """On the line of the step."""
    module = atoll.Module("wrong")
    left, right, out = sources(module)
    mb = module.microbatch("mb")
    mb.source(left).incremental_join(mb.source(right), on=on).append_to(out)
    with (
        atoll.LocalCluster(engine="inline") as cluster,
        pytest.raises((DeployError, atoll.errors.DeclarationError), match=words),
    ):
        cluster.deploy(module)


def test_two_columns_of_one_name_are_refused():
    """With how to rename one."""
    module = atoll.Module("wrong")
    left, _, _ = sources(module)
    mb = module.microbatch("mb")
    rows = mb.source(left)
    rows.incremental_join(rows, on="left.k = right.k").append_to(left)
    with (
        atoll.LocalCluster(engine="inline") as cluster,
        pytest.raises(atoll.errors.AtollError, match="more than one column 'k'"),
    ):
        cluster.deploy(module)
