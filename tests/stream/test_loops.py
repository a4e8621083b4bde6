"""Loops that emit and go on: against plain Python, in topologies and in queries, round by round."""

from __future__ import annotations

from collections import Counter

import pytest
from mistakes import refused

import atoll
from atoll import Map, Set, agg, start
from atoll.errors import TopologyFailedError, UserCodeError
from atoll.testing import TopologyTestDriver

ROW = "id long, v long"
TOLD = "id long, step string"


def halved(rows):
    """Half of each number goes on while there is one; every number is told of, even ones twice."""
    rest = rows.map(lambda row: {"id": row.id, "v": row.v // 2}, emits=ROW)
    told = rows.flat_map(
        lambda row: [{"id": row.id, "step": str(row.v)}] * (2 - row.v % 2), emits=TOLD
    )
    return rest.where(lambda row: row.v > 0), told


def told_of(number, rounds=99):
    """The same of one number."""
    found = Counter()
    while number > 0 and rounds:
        found[str(number)] += 2 - number % 2
        number, rounds = number // 2, rounds - 1
    return found


def module_of(left="error", at_most=6, dead_letter=False):
    """A module that counts what is told, and one visit per round by a step of state."""
    module = atoll.Module("halving")
    rejected = module.dead_letter_depot("rejected") if dead_letter else None
    mb = module.microbatch("mb", vnode_count=2, dead_letter=rejected)
    told = mb.pstate("told", Map(int, Map(str, int)))
    visits = mb.pstate("visits", Map(int, int))
    rows = mb.source(module.depot("rows", ROW, partitions=2), start_from=start.beginning())

    def visit(row, visits):
        visits[row.id] = visits.get(row.id, 0) + 1
        yield row

    def body(stream):
        return halved(stream.process(visit, key="id", states=[visits], emits=ROW))

    found = rows.loop(body, at_most=at_most, left=left)
    found.aggregate(told["id"], agg.count_values("step"))
    asked = module.query("steps", id=int, v=int).loop(halved, at_most=at_most, left=left)
    asked.select("step").returns("step", rows="all")
    return module


NUMBERS = [1, 2, 6, 33, 40, 63]


def test_it_emits_and_goes_on():
    """Rows of any columns come out of each round; attempts that fail change nothing."""
    with TopologyTestDriver(module_of(), engine="inline", parallelism=2) as driver:
        for half in (NUMBERS[:3], NUMBERS[3:]):
            driver.depot("rows").append([{"id": each, "v": each} for each in half])
            driver.fail_next_attempt(after_work=True)
            driver.run_until_idle()
        assert driver.pstate("told").get() == {each: told_of(each) for each in NUMBERS}
        visits = {each: each.bit_length() for each in NUMBERS}
        assert driver.pstate("visits").get() == visits
        for each in NUMBERS:
            assert Counter(driver.app.query("steps", id=1, v=each)) == told_of(each)


def test_rows_that_are_left_are_errors_or_end_there():
    """In a topology with the row, or set aside; in a query, too; left="drop" takes no notice."""
    with TopologyTestDriver(module_of(at_most=3), engine="inline") as driver:
        with pytest.raises(UserCodeError, match="left after 3 rounds"):
            driver.app.query("steps", id=1, v=8)
        assert len(driver.app.query("steps", id=1, v=7)) == 3
        driver.depot("rows").append([{"id": 8, "v": 8}])
        with pytest.raises(TopologyFailedError, match="left after 3 rounds"):
            driver.run_until_idle()
    with TopologyTestDriver(module_of(at_most=3, left="drop"), engine="inline") as driver:
        driver.depot("rows").append([{"id": 8, "v": 8}])
        driver.run_until_idle()
        assert driver.pstate("told").get() == {8: told_of(8, rounds=3)}
        assert Counter(driver.app.query("steps", id=1, v=8)) == told_of(8, rounds=3)
    with TopologyTestDriver(module_of(at_most=3, dead_letter=True), engine="inline") as driver:
        driver.depot("rows").append([{"id": each, "v": each} for each in (3, 8)])
        driver.run_until_idle()
        assert sum(driver.depot("rejected").end_offsets()) == 1
        assert driver.pstate("told").get() == {3: told_of(3), 8: told_of(8, rounds=3)}


def test_reachable_from_a_set():
    """Who is reached over how many others, each of them once: a loop over state in a query."""
    module = atoll.Module("graph")
    mb = module.microbatch("mb", vnode_count=2)
    near = mb.pstate("near", Map(int, Set(int)))
    rows = mb.source(module.depot("rows", "a long, b long"), start_from=start.beginning())
    rows.aggregate(near["a"], agg.collect_set("b"))

    def further(rows):
        found = rows.lookup(near["at"], "next").explode("next", "reached")
        found = found.select("reached AS at", "far + 1 AS far").distinct()
        return found, found

    begun = module.query("reached", at=int).with_columns(far="0L")
    begun.loop(further, at_most=4, left="drop").group_by("at").agg(far=agg.min("far")).returns(
        rows="all"
    )
    pairs = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 7), (9, 1)]
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"a": a, "b": b} for a, b in pairs])
        driver.run_until_idle()
        found = {row["at"]: row["far"] for row in driver.app.query("reached", at=1)}
    expected, edge = {}, {1}
    for far in range(1, 5):
        edge = {b for a, b in pairs if a in edge}
        expected |= {each: far for each in edge if each not in expected}
    assert found == expected


def test_mistakes():
    """What a body gives, and what becomes of what is left."""
    module = atoll.Module("loops")
    rows = module.microbatch("mb").source(module.depot("rows", ROW))
    with refused("without until= returned", "return two streams"):
        rows.loop(lambda s: s, at_most=2)
    with refused("with until= returned", "leave until= out"):
        rows.loop(halved, until="v > 3", at_most=2)
    with refused("emits what its body gives", 'left="drop"'):
        rows.loop(halved, at_most=2, left="emit")
    with refused("left='none' is not known"):
        rows.loop(halved, at_most=2, left="none")
