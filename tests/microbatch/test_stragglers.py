"""Who is silent, when it is named and when an attempt is over: decided from beats and times."""

from __future__ import annotations

import logging

import pytest

from atoll.beats import BEAT_SECONDS, Beat
from atoll.microbatch.stragglers import NAMED_SECONDS, Stragglers

ACTOR = Beat("actor", 3, 7, "process (shop.py:12)", 4, "shop.py:14 hang")


@pytest.fixture
def watch():
    """Ends attempts after 60 s of silence."""
    return Stragglers("totals", 60.0, {4: "process funds"})


def test_a_hung_task_is_named_within_ten_seconds():
    """Whenever between two looks it fell silent: beats come every second, and so do looks."""
    for fell_silent in (0.0, 0.3, 0.999):
        watch = Stragglers("totals", 60.0)
        now = 0.0
        while not watch.named(now) and now < 20.0:
            now += BEAT_SECONDS
            watch.heard(0, ACTOR, now)
        assert NAMED_SECONDS <= now - fell_silent < 10.0


def test_it_is_named_again_after_twice_as_long_each_time(watch):
    """So a log is not filled by one task."""
    watch.heard(0, ACTOR, 0.0)
    told = [second for second in range(60) if watch.named(float(second))]
    assert told == [5, 10, 20, 40]


def test_who_is_named_is_unit_fragment_and_step_how_long_and_where_the_stack_stands(watch, caplog):
    """In one line of the log, with the topology."""
    watch.heard(0, ACTOR, 0.0)
    with caplog.at_level(logging.WARNING, "atoll.microbatch"):
        assert watch.look(6.0) is None
    (line,) = caplog.messages
    for said in (
        "event='a task is silent'",
        "topology='totals'",
        "seconds=6.0",
        "unit='3'",
        "fragment='process funds'",
        "step='process (shop.py:12)'",
        "stack='shop.py:14 hang'",
    ):
        assert said in line


def test_the_attempt_is_over_at_the_limit_and_fails_by_name(watch):
    """The failure names the one that was silent for longest."""
    watch.heard(0, ACTOR, 0.0)
    watch.heard(1, Beat("reading task", 1, 5, "reading depot sales partition 0"), 1.0)
    assert watch.look(59.9) is None
    failure = watch.look(60.0)
    assert failure.code == "E-TASK-SILENT"
    assert "actor 3 gave no sign of life for 60 s, at: process (shop.py:12)" in failure.message
    assert failure.context["unit"] == "3"
    assert failure.context["stack"] == "shop.py:14 hang"
    assert "topology.task.silence.seconds" in failure.hint


@pytest.mark.parametrize(
    "goes_on",
    [
        Beat("actor", 3, 8, "process (shop.py:12)", 4),
        Beat("actor", 3, 7, "writing the log of funds"),
        Beat("actor", 4, 7, "process (shop.py:12)", 4),
        Beat("actor", 3, 7, ""),
    ],
)
def test_a_task_that_beats_or_begins_something_else_or_waits_for_spark_goes_on(watch, goes_on):
    """However long all of it takes together."""
    watch.heard(0, ACTOR, 0.0)
    watch.heard(0, goes_on, 50.0)
    assert watch.look(100.0) is None


def test_a_task_that_waits_for_spark_is_never_silent(watch):
    """What Spark does meanwhile is the phase timeout's."""
    watch.heard(0, Beat("reading task", 0, 3, ""), 0.0)
    assert watch.look(1000.0) is None


def test_a_task_that_has_ended_is_silent_no_more(watch):
    """Its silence is that of the grave."""
    watch.heard(0, ACTOR, 0.0)
    watch.over(0)
    assert watch.look(1000.0) is None
