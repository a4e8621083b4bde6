"""Any number of coordinators over a faulty store: the same seed, the same trace, no violation."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from harness import kept_seeds, replay, report, seed, volume
from sim_process import simulate

FIRST = seed()
SEEDS = volume(100, 20_000)


@pytest.fixture
def folder(tmp_path):
    """In memory where there is such a file system: fsync is not what is tested here."""
    memory = Path("/dev/shm")
    return memory / f"atoll-simulation-{os.getpid()}" if memory.is_dir() else tmp_path / "world"


def test_the_same_seed_gives_the_same_trace(folder):
    """Ten seeds twice: equal traces; and different seeds differ."""
    traces = []
    for each in range(FIRST, FIRST + 10):
        one = simulate(each, folder).trace.hexdigest()
        assert one == simulate(each, folder).trace.hexdigest(), f"seed {each}"
        traces.append(one)
    assert len(set(traces)) == len(traces)


def test_no_seed_breaks_what_must_hold(folder):
    """Every fault occurs many times over the seeds, and none of them breaks an invariant."""
    began = time.monotonic()
    total: dict[str, int] = {}
    seeds = [*kept_seeds("simulation"), *range(FIRST, FIRST + SEEDS)]
    for one in seeds:
        try:
            world = simulate(one, folder)
        except BaseException as error:
            error.add_note(replay("tests/faults/test_simulation.py", one))
            raise
        for name, count in world.counts.items():
            total[name] = total.get(name, 0) + count
    report("simulation", sum(total.values()), 0, began, seeds=len(seeds), **total)
    missing = [name for name, count in total.items() if count == 0]
    assert not missing, f"these never happened: {missing}"
