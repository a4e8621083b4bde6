"""SIGKILL at every named point of the protocol, and at every pair of points.

The points are the ends of the five steps, and the moments just before and just after each thing
that lasts: claims, plans, stores, logs, manifests, commits, deliveries, checkpoints, segments, and
every kind of deletion. A pair is a crash at one point, then a crash at another one while the next
process recovers, then a process that finishes.
"""

from __future__ import annotations

import json
import random
import shutil
import time

import pytest
from deaths import POINTS
from harness import kept_seeds, replay, report, seed, soaking, spread, volume
from trial import MODULES, Trial, scratch

ROUNDS = 6
PAIRS = volume(ci=6, soak=len(POINTS) ** 2)

SELDOM = ("deployment create", "revision create", "depot trim decision", "segment drop")
"""What happens once in a root's life, or so seldom that the life before may have done it all."""


@pytest.fixture(scope="module")
def visits(children):
    """How often each point is reached in an undisturbed life."""
    root = scratch()
    ended = children.run("deaths:count_points", root=str(root), rounds=ROUNDS)
    ended.expect(killed=False, about="the dry run")
    shutil.rmtree(root)
    return json.loads(ended.said("points")[0])


def test_every_point_is_reached(visits):
    """A point that nothing reaches would make its tests empty."""
    assert set(visits) == set(POINTS), set(POINTS) ^ set(visits)


@pytest.mark.slow
def test_killed_at_each_point_it_ends_in_the_same_state(undisturbed, visits):
    """Half way through the life's visits to the point; in soak also at the first and the second."""
    began = time.monotonic()
    final = undisturbed(ROUNDS)
    wanted = (1, 2, 0) if soaking() else (0,)
    cases = sorted(
        {
            (point, each or max(1, count // 2))
            for point, count in visits.items()
            for each in wanted
            if each <= count
        }
    )

    def killed(zygote, case):
        about = f"killed at {case}; {replay('test_crash_points.py')}"
        death = ("at_points", {"point": case[0], "visit": case[1]})
        return Trial(zygote, ROUNDS, final).survives(
            [death], lose_local=cases.index(case) % 3 == 0, about=about
        )

    outcomes = spread(killed, cases, *MODULES)
    failed = [(case, said) for case, said in outcomes if isinstance(said, AssertionError)]
    hit = {tuple(said[0]) for _, said in outcomes if not isinstance(said, AssertionError)}
    report("crash points", len(hit), len(failed), began, points=len(POINTS))
    assert not failed, f"{len(failed)} of {len(cases)} failed, the first:\n{failed[0][1]}"
    assert hit == set(cases)


@pytest.mark.slow
def test_killed_again_while_it_recovers_it_ends_in_the_same_state(undisturbed, visits):
    """The second death is at the first visit to its point, so mostly within the recovery."""
    began = time.monotonic()
    final = undisturbed(ROUNDS)
    every = [(one, other) for one in POINTS for other in POINTS]
    chosen = random.Random(seed()).sample(range(len(every)), PAIRS)
    numbers = dict.fromkeys([*kept_seeds("crash pairs"), *(sorted(chosen))])

    def killed(zygote, number):
        one, other = every[number]
        about = f"killed at {one}, then at {other}; {replay('test_crash_points.py')}"
        deaths = [
            ("at_points", {"point": one, "visit": max(1, visits[one] // 2)}),
            ("at_points", {"point": other, "visit": 1}),
        ]
        must_die = 1 if other.endswith(SELDOM) else 2  # the first death leaves half a life to do
        return Trial(zygote, ROUNDS, final).survives(
            deaths, lose_local=number % 3 == 0, about=about, must_die=must_die
        )

    outcomes = spread(killed, numbers, *MODULES)
    failed = [(number, said) for number, said in outcomes if isinstance(said, AssertionError)]
    said = [each for _, each in outcomes if not isinstance(each, AssertionError)]
    deaths = sum(map(len, said))
    both = sum(len(each) == 2 for each in said)
    report("crash pairs", deaths, len(failed), began, pairs=len(said), twice=both)
    assert not failed, f"{len(failed)} of {len(said)} failed, the first:\n{failed[0][1]}"
