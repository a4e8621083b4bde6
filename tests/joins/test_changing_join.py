"""Outer, semi and anti joins, and joins of changes: equal to a plain join of what is there."""

from __future__ import annotations

import itertools

import pytest
from changing_joins import (
    KINDS,
    LEFT,
    RIGHT,
    changes_in,
    joined,
    module_of,
    row_names,
    rows_of,
    summed,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atoll.pstate.store.vnode_writer import VnodeWriter
from atoll.testing import TopologyTestDriver

NAMES = {"left": LEFT, "right": RIGHT}


@st.composite
def cases(draw):
    """Records of both sides in stretches, and everything that must not show."""
    count = draw(st.integers(1, 30))
    records = []
    for _ in range(count):
        name = draw(st.sampled_from(["left", "right"]))
        values = (
            draw(st.integers(0, 5)),
            draw(st.sampled_from([0, 0, 1, 2, None])),
            draw(st.integers(0, 1)),
        )
        gone = draw(st.integers(0, 3)) == 0
        records.append((name, {**dict(zip(NAMES[name], values, strict=True)), "gone": gone}))
    cuts = sorted(draw(st.sets(st.integers(0, count), max_size=6)) | {0, count})
    changes = draw(st.tuples(st.booleans(), st.booleans()))
    sides = [None, *(name for name, each in zip(NAMES, changes, strict=True) if not each)]
    return {
        "stretches": [records[a:b] for a, b in itertools.pairwise(cuts)],
        "how": draw(st.sampled_from(KINDS)),
        "changes": changes,
        "unique": draw(st.sampled_from(sides)),
        "vnodes": draw(st.sampled_from([1, 3, 8])),
        "partitions": draw(st.sampled_from([1, 1, 3])),
        "parallelism": draw(st.integers(1, 3)),
        "limit": draw(st.sampled_from([2, 1_000])),
        "failing": draw(st.sets(st.integers(0, 6), max_size=3)),
        "restarting": draw(st.sets(st.integers(0, 6), max_size=1)),
        "resizing": draw(st.dictionaries(st.integers(0, 6), st.integers(1, 3), max_size=2)),
        "going_back": draw(st.sets(st.integers(1, 6), max_size=1)),
    }


def expected(case, records):
    """What is there after these records."""
    sides = [
        rows_of(
            [record for name, record in records if name == each],
            NAMES[each],
            changes=changes,
            unique=case["unique"] == each,
        )
        for each, changes in zip(NAMES, case["changes"], strict=True)
    ]
    return joined(*sides, case["how"])


def order_matters(case):
    """Whether depot partitions may bring rows of a unique side in another order."""
    return case["unique"] is not None and (case["partitions"] > 1 or case["limit"] == 2)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases())
def test_what_changed_adds_up_to_a_join_of_what_is_there(case):
    """After each stretch, whatever the cuts, vnodes, units, retries, moves and ways back."""
    if order_matters(case):
        case = {**case, "partitions": 1, "limit": 1_000}
    module = module_of(case["how"], changes=case["changes"], unique=case["unique"], case=case)
    names = row_names(case["how"])
    with TopologyTestDriver(module, engine="inline", parallelism=3) as driver:
        driver.app.cluster.resize("mb", case["parallelism"])
        seen = []
        for number, stretch in enumerate(case["stretches"]):
            before, told = driver.status()["committed"], len(changes_in(driver))
            for name, record in stretch:
                driver.depot(name).append([record])
            if number in case["failing"]:
                driver.fail_next_attempt(after_work=True)
            if number in case["resizing"]:
                driver.app.cluster.resize("mb", case["resizing"][number])
            driver.run_until_idle()
            seen += stretch
            fresh = changes_in(driver)
            assert summed(fresh, names) == expected(case, seen)
            if number in case["going_back"] and before:
                driver.topology("mb").rollback(to_microbatch=before, keep_appended=True)
                driver.topology("mb").resume()
                driver.run_until_idle()
                again = fresh[:told] + changes_in(driver)[len(fresh) :]
                assert summed(again, names) == expected(case, seen)
                return
            if number in case["restarting"]:
                driver.restart()


def entries(driver):
    """How many entries the join keeps: rows, and when they are forgotten."""
    found = 0
    for name, state in driver.app._pstates.items():
        if name.startswith("_mb-join"):
            for vnode in range(state.spec.vnode_count):
                found += sum(1 for _ in state.view().vnode(vnode).scan())
    return found


def test_a_row_changes_with_its_partner():
    """One change for the same row: alone, with a partner, with another value, alone again."""
    with TopologyTestDriver(module_of("left", changes=(False, True)), engine="inline") as driver:
        one = {"lp": 1, "k": 7, "v": 3}
        driver.depot("left").append([{**one, "gone": False}])
        driver.microbatch()
        alone = {**one, "rp": None, "j": None, "w": None}
        told = [{"k": 7, "old": None, "new": alone}]
        assert changes_in(driver) == told
        for w in (5, 6):
            driver.depot("right").append([{"rp": 2, "j": 7, "w": w, "gone": False}])
            driver.fail_next_attempt(after_work=True)
            driver.microbatch()
            told.append({"k": 7, "old": told[-1]["new"], "new": {**one, "rp": 2, "j": 7, "w": w}})
            assert changes_in(driver) == told
        driver.depot("right").append([{"rp": 2, "j": None, "w": None, "gone": True}])
        driver.microbatch()
        assert changes_in(driver)[3:] == [{"k": 7, "old": told[-1]["new"], "new": alone}]


def test_a_row_without_a_key_comes_out_alone():
    """Null equals nothing: on a side whose rows come out without a partner it has none for ever."""
    with TopologyTestDriver(module_of("full"), engine="inline") as driver:
        driver.depot("left").append([{"lp": 1, "k": None, "v": 3, "gone": False}])
        driver.depot("right").append([{"rp": 1, "j": None, "w": 3, "gone": False}])
        driver.microbatch()
        found = summed(changes_in(driver), row_names("full"))
        assert found == {(1, None, 3, None, None, None): 1, (None, None, None, 1, None, 3): 1}
        assert entries(driver) == 0


@pytest.mark.parametrize(
    ("how", "unique", "kept"),
    [
        ("anti", None, 1),  # that there is a row on the right
        ("semi", None, 1),
        ("left", "right", 1),
        ("left", "left", 1),
        ("left", None, 200),
    ],
)
def test_what_need_not_be_kept_is_not(how, unique, kept):
    """Where nothing can happen to a row any more: its partner stays, or none counts but one."""
    with TopologyTestDriver(module_of(how, unique=unique), engine="inline") as driver:
        many, one = ("right", "left") if unique == "left" else ("left", "right")
        names, of_one = NAMES[many], NAMES[one]
        rows = [dict(zip(names, (n, 1, n), strict=True)) | {"gone": False} for n in range(100)]
        driver.depot(many).append(rows)
        driver.microbatch()
        if unique is None:
            assert entries(driver) == 100
        partners = [dict(zip(of_one, (n, 1, n), strict=True)) | {"gone": False} for n in range(100)]
        driver.depot(one).append(partners)
        driver.microbatch()
        assert entries(driver) == kept


def test_a_change_costs_its_partners_alone(monkeypatch):
    """One more row under a key that has thousands reads and writes none of them."""
    met = []
    read, write = VnodeWriter.under, VnodeWriter.put_many

    def under(writer, prefixes, longer):
        found = read(writer, prefixes, longer)
        met.extend(entry for entries in found for entry in entries)
        return found

    def put_many(writer, keys, *more):
        met.extend(keys)
        write(writer, keys, *more)

    with TopologyTestDriver(module_of("left"), engine="inline") as driver:
        rows = [{"lp": n, "k": n % 2, "v": n, "gone": False} for n in range(2_000)]
        driver.depot("left").append(rows)
        driver.run_until_idle()
        monkeypatch.setattr(VnodeWriter, "under", under)
        monkeypatch.setattr(VnodeWriter, "put_many", put_many)
        for depot, names, key, costs in (
            ("left", LEFT, 0, 1),  # itself
            ("right", RIGHT, 5, 1),
            ("left", LEFT, 5, 2),  # and its partner
            ("right", RIGHT, 5, 3),  # and its partner, read and written
        ):
            met.clear()
            values = dict(zip(names, (-1, key, len(changes_in(driver))), strict=True))
            driver.depot(depot).append([{**values, "gone": False}])
            driver.microbatch()
            assert len(met) == costs
