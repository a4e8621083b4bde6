"""SIGKILL before every call by which the storage layer changes or syncs a file.

A dry run counts the calls of six rounds: appends, microbatches of two topologies, checkpoints,
tidying, depots that rotate and are trimmed. Then one process per call dies before that call; the
root is checked as it lies there, another process recovers and finishes, and the end must be that
of an undisturbed run. A third of the roots lose their local folder in between. In half of the
cases a call that is a write is torn: half of its bytes are written before the process dies. In
half of them the life that dies reads the next microbatch while one commits.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter

import pytest
from harness import Zygote, kept_seeds, replay, report, seed, spread, volume
from trial import MODULES, Trial, scratch

ROUNDS = 6
SUITE = "kills"
PIPELINE = "topology.microbatch.pipeline"
EVERY = volume(ci=190, soak=1)


def counted(children: Zygote):
    """How many calls a life makes, by kind."""
    root = scratch()
    ended = children.run("deaths:count_calls", root=str(root), rounds=ROUNDS)
    ended.expect(killed=False, about="the dry run")
    shutil.rmtree(root)
    total, kinds = json.loads(ended.said("calls")[0])
    return total, kinds


@pytest.mark.slow
def test_killed_before_any_call_of_the_storage_layer_it_ends_in_the_same_state(
    children, undisturbed
):
    """Nothing acknowledged is lost, nothing is doubled, nothing unfinished stays behind."""
    began = time.monotonic()
    total, kinds = counted(children)
    assert {"open", "write", "fsync", "link", "unlink", "mkdir"} <= set(kinds), kinds
    final = undisturbed(ROUNDS)
    offset = random.Random(seed()).randrange(EVERY)
    # calls are not exactly the same in every run, since two threads take part: leave the last ones
    numbers = [*kept_seeds(SUITE), *range(1 + offset, total - total // 50, EVERY)]

    def killed(zygote, number):
        about = f"killed before call {number} of about {total}; {replay('test_kills.py')}"
        torn, piped = number // EVERY % 2 == 0, number // EVERY % 4 < 2
        death = ("at_call", {"number": number, "torn": torn, PIPELINE: int(piped)})
        return Trial(zygote, ROUNDS, final).survives(
            [death], lose_local=number % 3 == 0, about=about
        )

    outcomes = spread(killed, numbers, *MODULES)
    failed = [(number, said) for number, said in outcomes if isinstance(said, AssertionError)]
    hit = Counter(said[0][0] for _, said in outcomes if not isinstance(said, AssertionError))
    report(SUITE, sum(hit.values()), len(failed), began, calls=total, every=EVERY, kinds=hit)
    assert not failed, f"{len(failed)} of {len(numbers)} failed, the first:\n{failed[0][1]}"
    assert sum(hit.values()) == len(numbers)
