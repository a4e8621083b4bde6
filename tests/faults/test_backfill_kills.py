"""A process that fills new PStates dies before any call: they are filled still, or have joined.

In either case what comes of it is a plain fold over the depot. A few of the calls in each run, all
of them in a soak.
"""

from __future__ import annotations

import json
import shutil
import time

import pytest
from harness import replay, report, soaking, zygote
from trial import scratch

AFTER = (1, 4)
"""So many calls after it has joined; it is to be seen by then whatever it died of."""


@pytest.fixture(scope="module")
def filling():
    """A zygote that has imported the scenario."""
    with zygote("backfilling") as made:
        yield made


def test_death_before_any_call(filling):
    """The first life ends there; the next one goes on from what it finds."""
    past = scratch()
    filling.run("backfilling:begin", root=str(past)).expect(killed=False, about="the past")
    calm = scratch()
    shutil.copytree(past, calm, dirs_exist_ok=True)
    ended = filling.run("backfilling:fill", root=str(calm))
    ended.expect(killed=False, about="an undisturbed life")
    (calls,) = map(json.loads, ended.said("calls"))
    stride = 1 if soaking() else calls // 6
    began, found = time.monotonic(), []
    deaths = [{"number": number} for number in (1, *range(stride, calls, stride))]
    for death in [*deaths, *({"after": count} for count in AFTER)]:
        root = scratch()
        shutil.copytree(past, root, dirs_exist_ok=True)
        about = f"{death}: {replay('test_backfill_kills.py')}"
        died = filling.run("backfilling:fill", root=str(root), **death)
        if died.status == 0 and "number" in death:  # it came to less calls this time
            shutil.rmtree(root)
            continue
        died.expect(killed=True, about=about)
        again = filling.run("backfilling:check", root=str(root))
        again.expect(killed=False, about=f"{about} {died.said('dying')}")
        found += map(json.loads, again.said("found"))
        shutil.rmtree(root)
    shutil.rmtree(past)
    shutil.rmtree(calm)
    assert found[-len(AFTER) :] == ["joined"] * len(AFTER), found
    report("backfill", len(found), 0, began, calls=calls)
