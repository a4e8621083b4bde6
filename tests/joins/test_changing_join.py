"""Outer, semi and anti joins, and joins of changes: equal to a plain join of what is there."""

from __future__ import annotations

import itertools
import random
from collections import Counter

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

import atoll
from atoll import Map, Set, agg, start
from atoll.errors import AtollError
from atoll.fsck.root import check_root
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
    max_examples=9, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
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


@pytest.mark.parametrize("how", KINDS)
def test_of_a_unique_side_the_first_row_stays(how):
    """Also when it had found its partner long before."""
    module = module_of(how, unique="left")
    with TopologyTestDriver(module, engine="inline") as driver:
        rows = {"left": [], "right": []}
        for number, name in enumerate(("right", "left", "left", "right", "left")):
            values = (number, 0, number)
            rows[name].append(values)
            record = dict(zip(NAMES[name], values, strict=True))
            driver.depot(name).append([{**record, "gone": False}])
            driver.run_until_idle()
        records = changes_in(driver)
        assert summed(records, row_names(how)) == joined(rows["left"][:1], rows["right"], how)


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


CHAIN = "a long, b long"


def chain_of(first, second):
    """The changes of one join are a side of the next, with a set on its other side."""
    module = atoll.Module("chain")
    depots = {name: module.depot(name, CHAIN, partition_by="a") for name in ("one", "two", "three")}
    mb = module.microbatch("mb", vnode_count=4)
    rows = {name: mb.source(depot, start_from=start.beginning()) for name, depot in depots.items()}
    members = mb.pstate("members", Map(int, Set(int)))
    rows["three"].aggregate(members["a"], agg.collect_set("b"))
    rows["two"].where("b > 1").aggregate(members["a"], agg.remove_from_set("b"))
    joined = rows["one"].incremental_join(
        rows["two"].select("a", "b AS c"), on="a", how=first, name="first"
    )
    last = joined.incremental_join(members.changes("a", "m"), on="a", how=second, name="last")
    counts = mb.pstate("counts", Map(int, int))
    last.aggregate(counts["a"], agg.sum("if(new IS NULL, 0, 1) - if(old IS NULL, 0, 1)"))
    return module


@pytest.mark.parametrize(
    ("first", "second"), [("left", "anti"), ("full", "semi"), ("inner", "full")]
)
def test_changes_of_a_join_are_joined_again(first, second):
    """With what a set gained and lost; aggregates of such changes add up."""
    chance = random.Random(f"{first} {second}")
    seen = {"one": [], "two": [], "three": []}
    members = set()
    with TopologyTestDriver(chain_of(first, second), engine="inline") as driver:
        for number in range(6):
            batch = {name: [] for name in seen}
            for _ in range(chance.randrange(1, 5)):
                pair = (chance.randrange(3), chance.randrange(4))
                batch[chance.choice(list(seen))].append(pair)
            for name, pairs in batch.items():
                seen[name] += pairs
                driver.depot(name).append([{"a": a, "b": b} for a, b in pairs])
            members |= set(batch["three"])
            members -= {each for each in batch["two"] if each[1] > 1}
            if number % 3 == 0:
                driver.fail_next_attempt(after_work=True)
            driver.run_until_idle()
            rows = chained(seen, members, first, second)
            counts = Counter(key for key, *_ in rows)
            found = driver.pstate("counts").get() or {}
            assert {key: count for key, count in found.items() if count} == counts


def chained(seen, members, first, second):
    """The rows of both joins, one after the other."""
    ones = [(0, a, b) for a, b in seen["one"]]
    twos = [(0, a, c) for a, c in seen["two"]]
    made = joined(ones, twos, first)
    rows = [
        (0, one[1] if one[1] is not None else one[4], one[2:] + other)
        for (one, other), times in (((each[:6], each[6:]), n) for each, n in made.items())
        for _ in range(times)
    ]
    found = joined(rows, [(0, a, m) for a, m in members], second)
    return [
        (row[1] if row[1] is not None else row[4], *row)
        for row, times in found.items()
        for _ in range(times)
    ]


def test_an_update_keeps_the_rows_and_refuses_another_kind():
    """What is kept means what it did; a left join's rows are not an anti join's."""
    with TopologyTestDriver(module_of("left"), engine="inline") as driver:
        driver.depot("left").append([{"lp": 1, "k": 7, "v": 3, "gone": False}])
        driver.run_until_idle()
        driver.update(module_of("left", case={"limit": 500}))
        driver.depot("right").append([{"rp": 2, "j": 7, "w": 5, "gone": False}])
        driver.run_until_idle()
        assert summed(changes_in(driver), row_names("left")) == {(1, 7, 3, 2, 7, 5): 1}
        for other in ("right", "full"):
            with pytest.raises(AtollError, match=r"incremental_join of .* is changed in meaning"):
                driver.update(module_of(other))


def house(*, joins):
    """Bids, their highest by auction, and with ``joins`` auctions beside it."""
    module = atoll.Module("house")
    bids = module.depot("bids", "auction long, price long", partition_by="auction")
    auctions = module.depot("auctions", "id long", partition_by="id")
    mb = module.microbatch("mb", vnode_count=4)
    highest = mb.pstate("highest", Map(int, int))
    best = mb.source(bids).aggregate(highest["auction"], agg.max("price")).changes()
    opened = mb.source(auctions)
    opened.aggregate(mb.pstate("opened", int, initial=0), agg.count())
    if joins:
        prices = mb.pstate("prices", Map(int, int))
        beside = opened.incremental_join(best, on="left.id = right.auction")
        beside.aggregate(prices["id"], agg.last("new.highest"))
    return module


def test_rows_from_before_the_join_come_with_their_next_change(tmp_path):
    """It knows nothing of them; the change brings the new row, and takes nothing away."""
    with TopologyTestDriver(house(joins=False), root=tmp_path, engine="inline") as driver:
        driver.depot("bids").append([{"auction": 7, "price": 10}, {"auction": 8, "price": 10}])
        driver.run_until_idle()
        driver.update(house(joins=True))
        driver.depot("auctions").append([{"id": 7}, {"id": 8}])
        driver.run_until_idle()
        assert driver.pstate("prices").get() in ({}, None)
        driver.depot("bids").append([{"auction": 7, "price": 12}])
        driver.run_until_idle()
        assert driver.pstate("prices").get() == {7: 12}
    assert check_root(tmp_path).findings == []
