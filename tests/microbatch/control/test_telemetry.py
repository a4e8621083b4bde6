"""What is added up over a life: durations by step, rows and time by operator and by unit."""

from __future__ import annotations

import pytest

import atoll
from atoll import Map, agg
from atoll.microbatch.control.telemetry import BUCKETS_SECONDS, Durations, skew
from atoll.testing import TopologyTestDriver


def test_durations_are_counted_up_to_the_end_of_each_bucket():
    """As Prometheus has it: what is no longer than the end, and all of them at last."""
    durations = Durations()
    for seconds in (0.0005, 0.001, 0.02, 61.0):
        durations.add(seconds)
    told = durations.as_dict()
    assert (told["count"], told["seconds"]) == (4, pytest.approx(61.0215))
    assert told["upto"]["0.001"] == 2
    assert told["upto"]["0.025"] == told["upto"]["60.0"] == 3
    assert told["upto"]["+Inf"] == 4
    assert list(told["upto"]) == [*map(str, BUCKETS_SECONDS), "+Inf"]


def test_skew_is_the_most_of_one_unit_over_the_mean_of_all():
    """1 where all are alike; nothing is said of nothing."""
    assert skew({0: 5, 1: 5}) == 1.0
    assert skew({0: 9, 1: 0, 2: 0}) == 3.0
    assert skew({0: 0, 1: 0}) is None
    assert skew({}) is None


@pytest.fixture
def driver(tmp_path):
    """Rows of which odd ones pass, counted by key; all keys are one, so one unit gets them all."""
    module = atoll.Module("shop")
    sales = module.depot("sales", "k long, v long", partition_by="v")
    mb = module.microbatch("mb", vnode_count=8)
    counts = mb.pstate("counts", Map(int, int))
    rows = mb.source(sales)
    odd = rows.flat_map(lambda row: [row] if row.v % 2 else [], emits="k long, v long")
    odd.aggregate(counts["k"], agg.count())
    with TopologyTestDriver(module, root=tmp_path, parallelism=2, engine="inline") as running:
        yield running


def test_rows_and_time_of_each_operator_and_unit_are_told_of_the_last_microbatch_and_in_all(driver):
    """In the status and in recent_microbatches()."""
    for _ in range(2):
        driver.depot("sales").append([{"k": 1, "v": v} for v in range(100)])
        driver.microbatch()
    status = driver.status()
    mapped, counted = status["operators"]
    assert mapped["step"].startswith("flat_map (test_telemetry.py:")
    assert (mapped["rows"], mapped["out"]) == (100, 50)
    assert (counted["rows"], counted["rejected"]) == (50, 0)
    assert mapped["ms"] > 0.0
    assert counted["ms"] > 0.0
    in_all = status["operators_total"]
    assert [(each["rows"], each["out"]) for each in in_all] == [(200, 100), (100, 0)]
    assert in_all[0]["ms"] > mapped["ms"]
    assert status["skew"]["rows"] == 2.0
    assert min(each["rows"] for each in status["units_total"]) == 0
    recent = driver.topology("mb").recent_microbatches()
    assert [each["operators"][0]["rows"] for each in recent] == [100, 100]
    assert recent[-1]["skew"] == status["skew"]
    assert {step: told["count"] for step, told in status["step_seconds"].items()} == dict.fromkeys(
        ("prime", "process", "commit", "publish", "tidy", "total"), 2
    )


def test_failed_attempts_are_counted_by_reason(driver):
    """Over this life."""
    driver.fail_next_attempt(times=2)
    driver.depot("sales").append([{"k": 1, "v": 1}])
    driver.microbatch()
    assert driver.status()["attempts_failed_total"] == {"E-INJECTED": 2}
