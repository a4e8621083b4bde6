"""Checkpoints: every vnode can be rebuilt at any time, and the log does not grow for ever."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.objects import CheckpointFile, Commit, PStateCommit, pack_ids
from atoll.pstate.store.history import FileRef

VNODES = 6
HISTORY = 2


def _commit(commit_id, touched, checkpoints, floor):
    part = PStateCommit(pack_ids(touched), [], checkpoints)
    return Commit(commit_id, 1, 1, 0, {}, 1, commit_id, [], {"p": part}, floor)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0.05, 1.0))
def test_every_vnode_keeps_a_base_and_the_logs_after_it(seed, interval, busy):
    """Simulated for 300 commits: from the floor on, base and later logs are always there.

    The base must be named in a commit that is kept and not later than the state wanted; each
    microbatch that changed the vnode after the base must be kept too; and the floor follows the
    head within a few intervals.
    """
    rng = random.Random(seed)
    known, touched, floor = Checkpoints({}), [0] * VNODES, 1
    changed: dict[int, set[int]] = {vnode: set() for vnode in range(VNODES)}
    named: list[tuple[int, int, int]] = []  # (commit, vnode, checkpoint id)
    last = _commit(0, touched, [], 1)
    for commit_id in range(1, 301):
        due = known.due(last, interval).get("p", [])
        for vnode in range(VNODES):
            if rng.random() < busy / (vnode + 1) ** 2:
                touched[vnode] = commit_id
                changed[vnode].add(commit_id)
        again = known.named_again(commit_id, interval, "p")
        file = FileRef(f"c{commit_id}", 1, 1, 1)
        written = [CheckpointFile(file, due, [commit_id] * len(due))] if due else []
        floor = max(floor, known.floor({"p": touched}, commit_id - HISTORY))
        last = _commit(commit_id, list(touched), written + again, floor)
        known = known.with_commit(last).above(floor)
        for checkpoint in last.pstates["p"].checkpoints:
            pairs = zip(checkpoint.vnodes, checkpoint.ids, strict=True)
            named += [(commit_id, vnode, known_id) for vnode, known_id in pairs]
        for vnode in range(VNODES):
            for wanted in range(max(1, commit_id - HISTORY), commit_id + 1):
                if not any(each <= wanted for each in changed[vnode]):
                    continue
                bases = [
                    i for c, v, i in named if v == vnode and floor <= c <= wanted and i <= wanted
                ]
                base = max(bases, default=0)
                needed = [each for each in changed[vnode] if base < each <= wanted]
                assert all(each >= floor for each in needed), (commit_id, vnode, base, floor)
                assert base or not [e for e in changed[vnode] if e < floor], (commit_id, vnode)
    if touched[0] and busy > 0.5:
        assert 300 - floor <= 4 * interval + 2 * HISTORY + 2
