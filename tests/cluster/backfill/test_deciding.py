"""When what is filled may join, from figures alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atoll.cluster.backfill.deciding import Pace, Standing

LEVEL = Standing(0, 5_000, 0.5, runs=True, written=True)


@pytest.mark.parametrize(
    ("change", "move"),
    [
        ({}, "join"),
        ({"behind": 5_001}, "go on"),  # more than a microbatch
        ({"behind": 5_000}, "hold"),
        ({"behind": 1_000, "batch": 1}, "hold"),  # little, however small the microbatches
        ({"behind": 5_000, "written": None}, "checkpoint"),
        ({"written": None}, "checkpoint"),
        ({"written": False}, "go on"),
        ({"runs": False}, "go on"),
        ({"runs": False, "written": None}, "go on"),
    ],
)
def test_what_is_done(change, move):
    """Near: checkpoints first, then the topology holds back, and level they join."""
    assert replace(LEVEL, **change).move == move


def test_the_topology_holds_back_longer_each_time():
    """As long as a microbatch at first; never longer than ten seconds."""
    held = [replace(LEVEL, holds=n).hold_seconds for n in (0, 1, 2, 30)]
    assert held == [0.5, 0.75, 1.125, 10.0]
    assert replace(LEVEL, batch_seconds=0.0).hold_seconds == 0.05


@pytest.mark.parametrize(
    ("taken", "took_ms", "calm_ms", "paced"),
    [
        (10_000, 400.0, 1_000.0, 10_000),  # two fifths of the topology's own: as it is
        (10_000, 800.0, 1_000.0, 5_000),
        (10_000, 100.0, 1_000.0, 20_000),  # at most twice as many
        (10_000, 100.0, 10.0, 10_000),  # what is short is short enough
        (10_000, 9_000.0, 10.0, 5_000),  # not fewer than are worth it
        (3, 9_000.0, 1_000.0, 10_000),  # few records say nothing
        (10_000, 9_000.0, None, 50_000),  # the topology rests
    ],
)
def test_what_fills_takes_short_microbatches(taken, took_ms, calm_ms, paced):
    """By how long the last one took, beside an undisturbed one of the topology."""
    assert Pace(10_000).after(50_000, taken, took_ms, calm_ms) == Pace(paced)


def test_the_pace_stays_within_bounds():
    """The options' most, and what is worth a microbatch; fewer where the options say so."""
    assert Pace(40_000).after(50_000, 40_000, 9_000.0, 10.0) == Pace(10_000)
    assert Pace(100).after(100, 100, 9_000.0, 10.0) == Pace(100)
    assert Pace(40_000).after(50_000, 40_000, 10.0, 1_000.0) == Pace(50_000)
