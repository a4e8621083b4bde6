"""Joins bounded by time: rows are forgotten when no partner can come, and late ones are counted."""

from __future__ import annotations

import itertools

import pytest
from changing_joins import KINDS, LEFT, RIGHT, changes_in, joined, module_of, row_names, summed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atoll.testing import TopologyTestDriver

SPANS = {
    "10 milliseconds": (-10, 10),
    ("0 seconds", "15 milliseconds"): (0, 15),
    ("-8 milliseconds", "-2 milliseconds"): (-8, -2),
}
NAMES = {"left": LEFT, "right": RIGHT}
END = 1_000_000


@st.composite
def cases(draw):
    """Records whose times go on, some before others, and everything that must not show."""
    count = draw(st.integers(1, 40))
    records = []
    for number in range(count):
        name = draw(st.sampled_from(["left", "right"]))
        key = draw(st.sampled_from([0, 0, 1, None]))
        values = (draw(st.integers(0, 9)), key, 3 * number + draw(st.integers(0, 9)))
        records.append((name, {**dict(zip(NAMES[name], values, strict=True)), "gone": False}))
    cuts = sorted(draw(st.sets(st.integers(0, count), max_size=6)) | {0, count})
    return {
        "stretches": [records[a:b] for a, b in itertools.pairwise(cuts)],
        "how": draw(st.sampled_from(KINDS)),
        "within": draw(st.sampled_from(list(SPANS))),
        "vnodes": draw(st.sampled_from([1, 3, 8])),
        "partitions": draw(st.integers(1, 3)),
        "parallelism": draw(st.integers(1, 3)),
        "limit": draw(st.sampled_from([2, 1_000])),
        "failing": draw(st.sets(st.integers(0, 6), max_size=3)),
        "restarting": draw(st.sets(st.integers(0, 6), max_size=1)),
        "resizing": draw(st.dictionaries(st.integers(0, 6), st.integers(1, 3), max_size=2)),
    }


def states(driver):
    """How many entries each PState of the join has."""
    found = {}
    for name, state in driver.app._pstates.items():
        if name.startswith("_mb-join"):
            vnodes = range(state.spec.vnode_count)
            found[name] = sum(1 for each in vnodes for _ in state.view().vnode(each).scan())
    return list(found.values())


def dropped(driver):
    """How many late rows were counted."""
    return sum(driver.status()["time"]["dropped"].values())


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases())
def test_rows_within_a_time_are_joined_and_then_forgotten(case):
    """As a plain join with a condition on the times; and once time has gone on nothing is kept."""
    join = {"within": case["within"], "at": ("v", "w")}
    module = module_of(case["how"], case=case, join=join, delay="40 milliseconds")
    low, high = SPANS[case["within"]]
    with TopologyTestDriver(module, engine="inline", parallelism=3) as driver:
        driver.app.cluster.resize("mb", case["parallelism"])
        seen = []
        for number, stretch in enumerate(case["stretches"]):
            for name, record in stretch:
                driver.depot(name).append([record])
            if number in case["failing"]:
                driver.fail_next_attempt(after_work=True)
            if number in case["resizing"]:
                driver.app.cluster.resize("mb", case["resizing"][number])
            driver.run_until_idle()
            seen += stretch
            if number in case["restarting"]:
                driver.restart()
        sides = [
            [tuple(record[each] for each in NAMES[name]) for side, record in seen if side == name]
            for name in NAMES
        ]
        wanted = joined(*sides, case["how"], lambda one, other: low <= other[2] - one[2] <= high)
        assert summed(changes_in(driver), row_names(case["how"])) == wanted
        assert dropped(driver) == 0
        for name, names in NAMES.items():
            end = dict(zip(names, (0, None, END), strict=True)) | {"gone": False}
            driver.depot(name).append([end])
        driver.run_until_idle()
        assert states(driver) == [0, 0]


def test_late_rows_are_counted():
    """A row behind the lower of the two watermarks is taken nowhere, and is not lost silently."""
    join = {"within": "10 milliseconds", "at": ("v", "w")}
    with TopologyTestDriver(
        module_of("left", join=join, delay="0 seconds"), engine="inline"
    ) as driver:
        for depot, at in (("left", 500), ("right", 400), ("left", 399), ("left", 450)):
            values = dict(zip(NAMES[depot], (1, 1, at), strict=True))
            driver.depot(depot).append([{**values, "gone": False}])
            driver.run_until_idle()
        assert dropped(driver) == 1
        assert [each["new"]["v"] for each in changes_in(driver)] == [500, 450]


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_by_the_clock_rows_are_kept_for_a_time_after_they_came(how):
    """Whatever they say of time themselves; and what came out stays."""
    module = module_of(how, join={"within": "1 minute"})
    with TopologyTestDriver(module, engine="inline") as driver:
        for number, seconds in enumerate((0, 59, 2)):
            driver.advance(seconds)
            depot = ("left", "right", "right")[number]
            values = dict(zip(NAMES[depot], (number, 1, number), strict=True))
            driver.depot(depot).append([{**values, "gone": False}])
            driver.fail_next_attempt(after_work=True)
            driver.run_until_idle()
        pair = (0, 1, 0, 1, 1, 1)
        wanted = {"inner": {pair: 1}, "left": {pair: 1}, "anti": {}}[how]
        assert summed(changes_in(driver), row_names(how)) == wanted
        driver.advance(600)
        driver.run_until_idle()
        assert states(driver) == [0, 0]
