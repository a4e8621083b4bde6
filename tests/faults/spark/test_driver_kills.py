"""The driver killed with SIGKILL at random times, again and again, on real Spark.

Each life is a process that appends and runs; it is killed while a known step runs, and the next
one starts at once, while the killed one's Java still lives for seconds and may write. At the end
everything that was ever appended counts once, and the state is that of a run nobody disturbed.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter

import pytest
import spark_checks as checks
import spark_scenario as scenario
from harness import replay, report, seed, volume
from spark_processes import STEPS, Child

ROUNDS = volume(1, 4)
KILLS = volume(2, 50)
"""Of each round, on a root of its own: 200 in soak, which can be run round by round (-k).

A kill costs a start of Spark and its first, cold microbatches: 20 s on two cores of its own.
"""
LINGER_MS = 3.0
MICROBATCHES_BEFORE_MAX = 4


class Aim:
    """When to kill a life: while a step runs, or at any time after the start.

    The step is hit by waiting for the line before it, in a microbatch that is drawn, and then for
    a random moment; which step was hit in truth is known only from the last line.
    """

    def __init__(self, draw, step):
        self.step = step
        self.nth = draw.randint(2, MICROBATCHES_BEFORE_MAX)
        spread = {"process": 0.4, "any": 1.5}.get(step, 0.002)
        self.delay = draw.uniform(0.0, spread)
        self.start_up = draw.uniform(0.5, 5.0)

    def take(self, child):
        """Wait until it is time, and kill; the step that was hit."""
        if self.step == "start":
            time.sleep(self.start_up)  # the fault's own random moment
        else:
            child.until("begun")
            before = "tidy" if self.step == "any" else STEPS[STEPS.index(self.step) - 1]
            for _ in range(self.nth):
                child.until(before)
            time.sleep(self.delay)
        assert child.process.poll() is None, f"ended by itself: {child.said()}"
        assert child.kill() == -signal.SIGKILL
        return child.running_step()


def aims(draw, kills):
    """Every step in turn, in random order, with some at any time and some during the start."""
    kinds = [*STEPS, *STEPS, "any", "any", "any", "start"]
    few = kills <= len(STEPS)
    chosen = draw.sample(STEPS, kills) if few else [kinds[n % len(kinds)] for n in range(kills)]
    draw.shuffle(chosen)
    return [Aim(draw, step) for step in chosen]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_killed_at_any_time(tmp_path, number):
    """Nothing is lost, doubled or half visible; ids go on without a gap; recovery is repeatable."""
    began = time.monotonic()
    root = tmp_path / "killed" / "root"
    root.parent.mkdir()
    commits = checks.CommitBook(root)
    lives = []
    try:
        draw = random.Random(seed() + number)
        histogram = _kill_again_and_again(root, draw, commits, lives)
        per_kill = (time.monotonic() - began) / KILLS
        found = [_finish(root, commits, lives, "more", 50)]
        found.append(_finish(root, commits, lives, "more", 0))
    finally:
        for each in lives:
            each.clean()
    again = replay("spark/test_driver_kills.py")
    assert found[0] == found[1], f"a second recovery changed something; {again}"
    assert sum(histogram.values()) == KILLS
    assert all(histogram[step] >= volume(0, 2) for step in STEPS), f"{histogram}; {again}"
    assert sum(histogram[step] > 0 for step in STEPS) >= volume(1, 5), f"{histogram}; {again}"
    assert found[1]["commits"] >= volume(KILLS, 100), f"{found}; {again}"
    shutil.rmtree(root / "local")
    state = scenario.shown(root)
    assert scenario.fingerprint(state) == found[1]["hash"], f"rebuilt from the log; {again}"
    _compare_with_undisturbed(tmp_path / "calm" / "root", root)
    hit = {step: histogram[step] for step in ("start", *STEPS)}
    more = {"hit": hit, "seconds_per_kill": round(per_kill, 2), **found[1]}
    report("driver kills on Spark", KILLS, 0, began, **more)


def _kill_again_and_again(root, draw, commits, lives):
    """One life after the other, each killed; how often which step was hit."""
    histogram = Counter()
    seen = 0
    for aim in aims(draw, KILLS):
        environment = {"ATOLL_LINGER_MS": str(LINGER_MS)}
        child = Child("spark_child.py", root, "forever", **environment)
        lives.append(child)
        histogram[aim.take(child)] += 1
        commits.collect()
        if commits.commits:
            seen = checks.check_reader(root, seen)
        if len(lives) > 3:
            lives.pop(0).clean()  # its Java has ended long ago, or ends now
    return histogram


def _finish(root, commits, lives, *how):
    """A life that nobody kills, and every check."""
    child = Child("spark_child.py", root, *how)
    lives.append(child)
    child.until("finished")
    assert child.ended() == 0, child.said()
    return checks.check_all(root, commits)


def _compare_with_undisturbed(calm, root):
    """A run of the same records that nobody disturbs, without Spark, ends in the same state."""
    stored = scenario.stored(root)
    numbers = sorted(record["id"] for partition in stored for record in partition)
    calm.parent.mkdir()
    file = calm.with_name("numbers")
    file.write_text("\n".join(map(str, numbers)))
    commits, lives = checks.CommitBook(calm), []
    try:
        child = Child("spark_child.py", calm, "same", file, ATOLL_ENGINE="inline")
        lives.append(child)
        child.until("finished")
        assert child.ended() == 0, child.said()
    finally:
        for each in lives:
            each.clean()
    commits.collect()
    assert scenario.stored(calm) == stored
    assert scenario.shown(calm) == scenario.shown(root)
