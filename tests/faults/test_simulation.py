"""Any number of coordinators over a faulty store: the same seed, the same trace, no violation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import kept_seeds, replay, report, seed, volume
from sim_process import simulate
from trial import scratch

FIRST = seed()
SEEDS = volume(60, 20_000)


@pytest.fixture
def folder():
    """A folder that is dropped afterwards, in memory where that is possible."""
    made = scratch()
    yield made / "world"
    shutil.rmtree(made)


def test_the_same_seed_gives_the_same_trace(folder):
    """Ten seeds twice: equal traces; and different seeds differ."""
    traces = []
    for each in range(FIRST, FIRST + 10):
        one = simulate(each, folder).trace.hexdigest()
        assert one == simulate(each, folder).trace.hexdigest(), f"seed {each}"
        traces.append(one)
    assert len(set(traces)) == len(traces)


def test_the_trace_does_not_depend_on_the_hash_seed(folder):
    """Whatever order sets have in another process: a seed that failed there fails here too."""
    program = (
        "import sys, pathlib, sim_process as sim\n"
        "first, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])\n"
        "for seed in range(first, first + 12):\n"
        "    print(sim.simulate(seed, folder).trace.hexdigest())\n"
    )
    traces = [
        subprocess.run(
            [sys.executable, "-c", program, str(FIRST), f"{folder}-{hash_seed}"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for hash_seed in ("1", "2", "3")
    ]
    assert len(traces[0]) == 12
    assert traces[0] == traces[1] == traces[2]


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
