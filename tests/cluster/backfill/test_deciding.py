"""When what is filled may join, from figures alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atoll.cluster.backfill.deciding import Standing

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
