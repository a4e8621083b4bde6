"""Holds what `process` does with values changed in place when rows are set aside or kept."""

from __future__ import annotations

import json

import pytest

import atoll
from atoll import List, Map, Struct
from atoll.testing import TopologyTestDriver

KEPT = []


def module_of(function, **options):
    """A topology of one step, which sets rows aside."""
    module = atoll.Module("m")
    depot = module.depot("rows", "k string, v long", partition_by="k", partitions=1)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=1, dead_letter=rejected, options=options)
    lists = mb.pstate("lists", Map(str, List(int)))
    totals = mb.pstate("totals", Map(str, Struct(n=int, total=int)))
    mb.source(depot).process(function, key="k", states=[lists, totals])
    return module


def letters(driver):
    """What was set aside."""
    depot = driver.depot("rejected")
    return [each["error"] for each in atoll.rows(depot.read(0, 0, depot.end_offsets()[0]))]


def add(row, lists, totals):
    """Changes in place, and raises after that at negative numbers."""
    total = totals.setdefault(row.k, {"n": 0, "total": 0})
    total["n"] += 1
    total["total"] += row.v
    lists.setdefault(row.k, []).append(row.v)
    if row.v == -1:
        raise ValueError(row.v)
    if row.v == -2:
        len(lists)  # what was written is flushed
        lists[row.k].append("text")


@pytest.mark.parametrize("flush", [1, 1_000])
@pytest.mark.parametrize("max_records", [2, 100])
def test_what_a_rejected_row_changed_in_place_is_taken_back(flush, max_records):
    """Also what was flushed on the way, and what does not fit; other rows stay."""
    values = [1, -1, 2, -2, 3, -1, -2, 4]
    module = module_of(add, **{"pstate.flush.max.entries": flush} if flush == 1 else {})
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "v": value} for value in values])
        while driver.microbatch(max_records=max_records):
            pass
        assert driver.pstate("lists").get() == {"a": [1, 2, 3, 4]}
        assert driver.pstate("totals").get() == {"a": {"n": 4, "total": 10}}
        found = letters(driver)
        assert found.count("ValueError: -1") == 2
        assert sum("does not fit int" in each for each in found) == 2


def hold(row, lists, totals):
    """Keeps what a row has read that is set aside, and changes it later."""
    if row.v == 1:
        lists[row.k] = [1]
    elif row.v == 2:
        KEPT[:] = [lists[row.k]]
        KEPT[0].append(2)
        raise ValueError(row.v)
    else:
        KEPT[0].append(3)


def test_what_a_rejected_row_held_must_not_be_changed():
    """It stands for no value; the attempt fails instead of losing it."""
    with TopologyTestDriver(module_of(hold), engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "v": value} for value in (1, 2, 3)])
        while (step := driver.step()) not in ("failed", "idle"):
            pass
        assert step == "failed"
        assert "was changed after the call" in driver.status()["error"]["message"]


def spoil(row, lists=None, totals=None):
    """Changes its row, and raises."""
    row.v += 100
    row.tags.append("spoilt")
    raise ValueError


@pytest.mark.parametrize("step", ["process", "map", "where"])
def test_a_row_is_set_aside_as_it_was_read(step):
    """Whatever the function did to it before it raised."""
    module = atoll.Module("m")
    columns = "k string, v long, tags array<string>"
    depot = module.depot("rows", columns, partition_by="k", partitions=1)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=1, dead_letter=rejected)
    lists = mb.pstate("lists", Map(str, List(int)))
    rows = mb.source(depot)
    if step == "map":
        rows = rows.map(spoil, emits=columns)
    elif step == "where":
        rows, _ = rows.branch(spoil)
    rows.process(spoil, key="k", states=[lists])
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "v": 1, "tags": ["x"]}])
        driver.microbatch()
        (letter,) = atoll.rows(driver.depot("rejected").read(0, 0, 1))
        assert json.loads(letter["row"]) == {"k": "a", "v": 1, "tags": ["x"]}
