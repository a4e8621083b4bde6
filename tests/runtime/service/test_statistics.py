"""Statistics of several copies and runtimes: sums, in Coral's shape."""

from __future__ import annotations

from functools import reduce

from atoll.runtime.service.statistics import Statistics


def test_case_35_statistics_are_merged_by_sums():
    """(1,2,3), (2,3,4) and (4,5,6) are 7, 10, 13; a counter that two have is their sum.

    Coral kept the last of two counters (20 and 20 gave 20), which loses what the other did.
    """
    parts = [
        Statistics(1, 2, 3, {"actor1": {"stat1": 10}, "actor2": {"stat1": 20}}),
        Statistics(2, 3, 4, {"actor2": {"stat1": 20}}),
        Statistics(4, 5, 6, {"actor3": {"stat2": 1}}),
    ]
    merged = reduce(Statistics.plus, parts)
    assert (merged.actors, merged.messages, merged.exceptions) == (7, 10, 13)
    assert merged.counters["actor2"] == {"stat1": 40}
    shown = merged.to_json()
    assert shown["counters"]["total"] == {"stat1": 50, "stat2": 1}
    assert Statistics.from_json(shown) == merged


def test_statistics_of_a_copy_come_of_what_it_counted():
    """Triggers and shunts are messages; every actor is there, also one that did nothing."""
    counted = {"a": {"json": 3, "shunt": 1, "failure": 2, "emitted": 1}}
    found = Statistics.of(counted, ["a", "b"])
    assert (found.actors, found.messages, found.exceptions) == (2, 4, 2)
    assert found.counters["b"] == {}
