"""Random reschedules with kills in between: the end is that of an undisturbed run.

Bank transfer, top-N, a trail whose order shows and a second topology, rescheduled all the time
over 1 to 16 units while workers join and are lost. Each life but the last is killed before a
random call of the storage layer. A reader in a process of its own reads all the time, and each
read must be exactly the fold of the records that its commit counts.
"""

from __future__ import annotations

import json
import random
import shutil
import time

import pytest
from checker import Told
from harness import replay, report, seed, volume, zygote
from trial import expected_after, scratch

ROUNDS = 10
LIVES = volume(ci=4, soak=40)
MOVES_PER_LIFE = 16
MOVES_LEAST = volume(ci=50, soak=500)


@pytest.mark.slow
def test_under_random_reschedules_and_kills_it_ends_in_the_same_state() -> None:
    """Every commit on the way is what an undisturbed run has; none is seen in parts."""
    began = time.monotonic()
    rng = random.Random(seed())
    about = replay("test_reschedules.py")
    folder = scratch()
    root, stop, reads = folder / "root", folder / "stop", folder / "reads"
    reads.touch()
    moved = died = 0
    told = Told()
    with zygote("reading") as readers, zygote("moving", "checker") as lives:
        calls = _calls_of_a_life(lives, folder)
        reader = readers.start(
            "reading:read_until", root=str(root), stop=str(stop), reads=str(reads)
        )
        problem = None
        try:
            for life in range(LIVES):
                last = life == LIVES - 1
                ended = lives.run(
                    "moving:live_moving",
                    root=str(root),
                    rounds=ROUNDS * (life + 1) // LIVES,
                    seed=rng.randrange(10**9),
                    moves=MOVES_PER_LIFE,
                    number=0 if last else rng.randrange(calls // 10, calls * 2 // 3),
                    reads=str(reads),
                )
                ended.expect(killed=not last, about=f"life {life + 1}; {about}")
                told.hear(ended.output)
                moved += len(ended.said("moved"))
                died += len(ended.said("dying"))
                if life % 3 == 1:
                    shutil.rmtree(root / "local", ignore_errors=True)
                checked = lives.run(
                    "checker:check", root=str(root), told=told.as_json(), finished=last
                )
                told.hear(checked.expect(killed=False, about=f"check {life + 1}; {about}").output)
            while moved < MOVES_LEAST:  # lives end early when they are killed early
                ended = lives.run(
                    "moving:live_moving",
                    root=str(root), rounds=ROUNDS, seed=rng.randrange(10**9), moves=MOVES_PER_LIFE,
                    reads=str(reads),
                ).expect(killed=False, about=about)  # fmt: skip
                moved += len(ended.said("moved"))
        except AssertionError as error:  # what the reader says explains more
            problem = error
        stop.touch()
        heard = reader.wait()
        heard.expect(killed=False, about=f"the reader; {about}")
        if problem is not None:
            raise problem
    shutil.rmtree(folder)
    seen = json.loads(heard.said("seen")[0])
    report("reschedules", moved + died, 0, began, moved=moved, died=died, reads=sum(seen.values()))
    assert died == LIVES - 1
    assert moved >= MOVES_LEAST
    assert json.loads(ended.said("final")[0]) == expected_after(ROUNDS)
    assert len(seen) > ROUNDS, "the reader saw a few commits only"


def _calls_of_a_life(lives, folder):
    """How many calls of the storage layer a life of its length makes."""
    ended = lives.run(
        "moving:live_moving",
        root=str(folder / "dry"),
        rounds=max(1, ROUNDS // LIVES),
        seed=1,
        moves=MOVES_PER_LIFE,
    )
    return json.loads(ended.expect(killed=False, about="the dry run").said("calls")[0])
