"""Readers in other processes see whole commits only, in their order, whatever happens meanwhile.

One process reads all the time, each read through one view of one commit, and compares what it
sees with the fold of just the records that this commit counts. Another one runs the scenario:
every third attempt is lost after its work stands in the stores, it is killed within attempts and
started again, once without its local folder. Every attempt waits until it was read meanwhile.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from harness import Zygote, replay, report, volume, zygote
from trial import expected_after, scratch

ROUNDS = volume(ci=6, soak=30)
DEATHS = (3, 5, 4, *range(2, volume(ci=2, soak=14)))
"""At which attempt of its life each process is killed, until one lives to the end."""


@pytest.mark.slow
def test_readers_see_whole_commits_in_their_order() -> None:
    """No read shows a part of a microbatch, a lost attempt's work, or less than an earlier one."""
    began = time.monotonic()
    folder = scratch()
    stop, reads = folder / "stop", folder / "reads"
    reads.touch()
    try:
        with zygote("reading") as readers, zygote("reading") as writers:
            reader = readers.start(
                "reading:read_until", root=str(folder / "root"), stop=str(stop), reads=str(reads)
            )
            problem = None
            lost = died = 0
            try:
                lost, died = _write(writers, folder / "root", reads)
            except AssertionError as error:  # what the reader says explains more
                problem = error
            stop.touch()
            ended = reader.wait()
            ended.expect(killed=False, about=f"the reader; {replay('test_readers.py')}")
            if problem is not None:
                raise problem
    finally:
        shutil.rmtree(folder)
    seen, readings, counts = (
        json.loads(ended.said(word)[0]) for word in ("seen", "readings", "counts")
    )
    report(
        "readers",
        *(lost + died, 0, began),
        reads=sum(seen.values()),
        commits=len(seen),
        readings=readings,
        **counts,
    )
    assert died == len(DEATHS)
    assert lost >= ROUNDS // 2
    assert len(seen) > ROUNDS, "it read at a few commits only"
    assert counts["during"] > 10 * ROUNDS, "it hardly read while an attempt ran"
    assert readings["overlaid"] > ROUNDS, "it never had to look past an attempt's work"


def _write(writers: Zygote, root: Path, reads: Path) -> tuple[int, int]:
    """Lives that die, then one that does not; how many attempts were lost, and how many died."""
    lost = died = 0
    for index, attempt in enumerate((*DEATHS, 0)):
        ended = writers.run(
            "reading:fail_and_die",
            root=str(root),
            rounds=ROUNDS,
            reads=str(reads),
            die_at=attempt,
        )
        ended.expect(killed=attempt > 0, about=f"life {index + 1}; {replay('test_readers.py')}")
        lost += len(ended.said("lost"))
        died += len(ended.said("dying"))
        if index == 1:
            shutil.rmtree(root / "local")
    assert json.loads(ended.said("final")[0]) == expected_after(ROUNDS)
    return lost, died
