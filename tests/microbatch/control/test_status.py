"""What a topology counts of its actors: where they ran, and how much room their stores take."""

from __future__ import annotations

from types import SimpleNamespace

from atoll.microbatch.control.status import Status
from atoll.microbatch.outcome import JobOutcome, Manifest, Outcome


def _outcome(*jobs):
    """Jobs of (unit, worker, bytes by vnode)."""
    return Outcome(
        [
            JobOutcome(
                index,
                [
                    Manifest(f"{index}-{unit}", unit, worker=worker, vnode_bytes={"sums": sizes})
                    for unit, worker, sizes in job
                ],
            )
            for index, job in enumerate(jobs)
        ]
    )


def test_actors_that_ran_where_they_ran_before():
    """Told apart: for the first time, on the same worker as the last time, on an other one."""
    status = Status("mb", SimpleNamespace())
    status.attempted(_outcome([(0, "a", {}), (1, "b", {})], [(0, "a", {}), (1, "a", {})]))
    assert dict(status.actor_runs_total) == {"first": 2, "same": 1, "other": 1}
    status.attempted(_outcome([(1, "a", {}), (2, "b", {})]))
    assert dict(status.actor_runs_total) == {"first": 3, "same": 2, "other": 1}


def test_the_room_of_stores_is_as_it_was_told_last():
    """Whichever worker told it."""
    status = Status("mb", SimpleNamespace())
    status.attempted(_outcome([(0, "a", {0: 10, 1: 20}), (1, "b", {2: 30})]))
    status.attempted(_outcome([(1, "b", {1: 25})]))
    assert status.vnode_bytes() == {("sums", 0): 10, ("sums", 1): 25, ("sums", 2): 30}
