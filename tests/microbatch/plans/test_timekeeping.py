"""How time goes on from commit to plan to commit, without anything that runs."""

from __future__ import annotations

import msgspec
import pytest

from atoll.microbatch.commits.objects import (
    GENESIS,
    Clocks,
    Plan,
    decode_commit,
    decode_plan,
    encode,
    pack_times,
    unpack_times,
)
from atoll.microbatch.outcome import JobOutcome, Manifest, Outcome
from atoll.microbatch.plans.timekeeping import clocks_after, tick_ranges, timed
from atoll.topology.times import NEVER, PROCESSING, Times


def plan(now_ms=1_000):
    """A plan that nothing is known of but its time."""
    return Plan(2, 1, now_ms, {"d": [(0, 5)]}, {})


def outcome(*manifests):
    """An attempt of one job."""
    return Outcome([JobOutcome(0, [Manifest(str(n), n, **m) for n, m in enumerate(manifests)])])


def test_a_plan_takes_the_watermarks_and_what_is_due_by_them():
    """Each PState by its own clock; one whose watermark is missing has nothing due."""
    last = Clocks(
        now_ms=900,
        watermarks={"a": 50, "b": 70},
        used={"a": 40},
        agenda={
            "both": pack_times([50, 51, NEVER]),
            "wall": pack_times([1_000, 1_001, NEVER]),
            "unknown": pack_times([0, 0, 0]),
            "gone": pack_times([0]),
        },
    )
    clocks = {"both": ("a", "b"), "wall": PROCESSING, "unknown": ("a", "c")}
    made = timed(plan(), last, clocks)
    assert made.due == {"both": [0], "wall": [0]}
    assert made.times == Times(1_000, {"a": 50, "b": 70}, {"a": 40}, plan().id)
    assert made.times.of(("a", "b")) == 50
    assert made.times.of(("a", "c")) is None
    assert made.times.event_before(("a",)) == 40
    assert made.ranges == plan().ranges


def test_watermarks_never_fall_and_counts_add_up():
    """Over all actors, and over the life of the topology."""
    last = Clocks(watermarks={"a": 50, "b": 70}, dropped={"w": 3})
    went = timed(plan(), last, {})
    after = clocks_after(
        last,
        went,
        outcome(
            {"watermarks": {"a": {"d/0": 60}}, "dropped": {"w": 2}},
            {"watermarks": {"a": {"d/0": 55}, "b": {"d/0": 1}}},
        ),
        {},
    )
    assert after.watermarks == {"a": 60, "b": 70}
    assert after.used == {"a": 50, "b": 70}
    assert after.dropped == {"w": 5}
    assert after.now_ms == 1_000


def test_depot_partitions_with_records_waiting_hold_a_watermark_back():
    """To the slowest of them; others do not, nor do rows of which the partition is not known."""
    last = Clocks()
    seen = []
    for told, behind in (
        ({"d/0": 90, "d/1": 20, "d/2": 30}, ["d/1", "d/2"]),
        ({"d/1": 40, "d/2": 35}, ["d/1", "d/2", "e/0"]),
        ({"d/1": 50, "d/2": 60}, ["d/1"]),
        ({"d/1": 55}, []),
        ({"d/0": 95, "": 97}, ["d/0"]),
        ({}, []),
    ):
        went = timed(msgspec.structs.replace(plan(), behind=behind), last, {})
        last = clocks_after(last, went, outcome({"watermarks": {"a": told} if told else {}}), {})
        seen.append(last.watermarks["a"])
    assert seen == [20, 35, 50, 90, 95, 97]


def test_an_agenda_changes_only_where_somebody_looked():
    """The other vnodes have what the commits before said."""
    last = Clocks(agenda={"p": pack_times([5, 6, 7])})
    looked = outcome({"agenda": {"p": {0: 9}}}, {"agenda": {"p": {2: NEVER}, "q": {1: -3}}})
    after = clocks_after(last, timed(plan(), last, {}), looked, {"p": 3, "q": 2, "r": 4})
    assert {name: unpack_times(each) for name, each in after.agenda.items()} == {
        "p": [9, 6, NEVER],
        "q": [NEVER, -3],
    }


@pytest.mark.parametrize(
    ("done", "now_ms", "wanted"),
    [
        (5, 6_000, (5, 6)),
        (5, 6_999, (5, 6)),
        (5, 5_999, (5, 5)),
        (5, 9_000, (8, 9)),
        (9, 5_000, (9, 9)),
    ],
)
def test_a_tick_s_range_is_its_newest_record_or_none(done, now_ms, wanted):
    """Also when the clock was set back."""
    assert tick_ranges({"t": 1_000}, {"t": [done]}, now_ms) == {"t": [wanted]}


def test_objects_of_versions_without_time_are_read():
    """Nothing had happened in event time then."""
    old = msgspec.msgpack.decode(encode(plan()))
    for name in ("watermarks", "watermarks_before", "due", "behind"):
        del old[name]
    assert decode_plan(msgspec.msgpack.encode(old)) == plan()
    commit = msgspec.msgpack.decode(encode(GENESIS))
    del commit["clocks"]
    assert decode_commit(msgspec.msgpack.encode(commit)).clocks == Clocks()
