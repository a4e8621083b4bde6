"""SIGKILL before every call by which a rollback, and the work after it, changes or syncs a file.

A dry run counts the calls from the request on. Then one process per call dies before it; what
lies there must be a topology that went back wholly, or not at all. The next life goes back if need
be and finishes; the end is that of a life that nobody disturbed, and nothing abandoned is left.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from typing import Any

import going_back
import oracle
import pytest
from harness import Ended, Zygote, replay, report, seed, spread, volume
from trial import scratch

EVERY = volume(ci=18, soak=1)
FIRST = 16
"""So many calls are tried in any case: the rollback itself is among them."""
MODULE = "going_back"


def counted(children: Zygote) -> int:
    """How many calls there are from the request to go back on."""
    root = scratch()
    ended = children.run("going_back:count_calls", root=str(root))
    ended.expect(killed=False, about="the dry run")
    shutil.rmtree(root)
    calls: int = json.loads(ended.said("calls")[0])
    return calls


def told(*lives: Ended) -> dict[str, Any]:
    """What the lives of a root have said, for the checker."""
    output = [line for life in lives for line in life.output.splitlines()]
    numbers = {"acked": 0, "try": 0}
    for line in output:
        word, _, value = line.partition(" ")
        if word in numbers:
            numbers[word] = max(numbers[word], int(value))
    went = any(line.startswith("went back") for line in output)
    return {"acked": numbers["acked"], "tried": numbers["try"], "went": went}


def survives(zygote: Zygote, number: int) -> tuple[list[Any], int]:
    """Die before a call; returns what of, and how many times it had gone back (0 or 1)."""
    about = f"killed before call {number}; {replay('test_rollback_kills.py')}"
    root = scratch()
    died = zygote.run("going_back:die_at", root=str(root), number=number, torn=number % 2 == 0)
    died.expect(killed=True, about=about)
    if number % 3 == 0:
        shutil.rmtree(root / "local", ignore_errors=True)
    lies = zygote.run("going_back:check", root=str(root), finished=False, **told(died))
    lies.expect(killed=False, about=f"{about}: as it lies there")
    last = zygote.run("going_back:finish", root=str(root))
    last.expect(killed=False, about=f"{about}: the last life")
    final, again = (json.loads(last.said(word)[0]) for word in ("final", "again"))
    expected = oracle.bank({"events": oracle.ends_of("events", going_back.AFTER)})
    assert final == {name: expected[name] for name in going_back.STATES}, f"I3: {about}"
    assert again == final, f"I8: {about}"
    known = told(died, last)
    ended = zygote.run("going_back:check", root=str(root), finished=True, **known)
    ended.expect(killed=False, about=f"{about}: the end")
    shutil.rmtree(root)
    return json.loads(died.said("dying")[0]), json.loads(lies.said("line")[0])[0]


@pytest.mark.slow
def test_killed_anywhere_in_a_rollback_it_happened_or_it_did_not() -> None:
    """The line's commits, the state and the files fit together after each death and at the end."""
    began = time.monotonic()
    total = spread(lambda zygote, _: counted(zygote), [0], MODULE)[0][1]
    assert isinstance(total, int), total
    # calls are not exactly the same in every run, since two threads take part: leave the last ones
    later = FIRST + 1 + random.Random(seed()).randrange(EVERY)
    numbers = [*range(1, FIRST + 1), *range(later, total - total // 20, EVERY)]
    outcomes = spread(survives, numbers, MODULE)
    failed = [(number, said) for number, said in outcomes if isinstance(said, AssertionError)]
    hit = [said for _, said in outcomes if not isinstance(said, AssertionError)]
    kinds = Counter(what[0] for what, _ in hit)
    went = sum(gone for _, gone in hit)
    report(
        "rollback kills",
        *(len(hit), len(failed), began),
        calls=total,
        every=EVERY,
        kinds=kinds,
        went_back=went,
    )
    assert not failed, f"{len(failed)} of {len(numbers)} failed, the first:\n{failed[0][1]}"
    assert 0 < went < len(hit), "it was always killed before, or always after"
    assert any("/timelines/" in "".join(what[1:]) for what, _ in hit), "no death while it went back"
