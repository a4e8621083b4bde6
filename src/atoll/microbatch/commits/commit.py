"""Builds the commit of an attempt from its outcome. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.microbatch.commits.horizon import horizon_of
from atoll.microbatch.commits.objects import (
    Commit,
    Plan,
    PStateCommit,
    pack_ids,
    records_in,
    unpack_ids,
)
from atoll.microbatch.outcome import Outcome
from atoll.microbatch.plans.timekeeping import clocks_after

if TYPE_CHECKING:
    from atoll.microbatch.events import State


def build_commit(state: State, outcome: Outcome, now_ms: int, pinned: int | None = None) -> Commit:
    """The commit object for the running plan, carrying over what the attempt left alone.

    ``pinned`` is the lowest commit that must stay readable whatever the options say.
    """
    plan = state.plan
    assert plan is not None
    horizon = horizon_of(plan.id, state.last, state.options, state.heads, pinned)
    pstates: dict[str, PStateCommit] = {}
    touched_ids: dict[str, list[int]] = {}
    for name, vnode_count in state.vnode_counts.items():
        part, touched = _pstate_commit(name, vnode_count, plan, state, outcome)
        pstates[name] = part
        touched_ids[name] = touched
    floor = state.checkpoints.floor(touched_ids, horizon)
    ticks = {name: ranges for name, ranges in plan.ranges.items() if name in state.ticks}
    records = plan.records - records_in(ticks)
    return Commit(
        id=plan.id,
        version=state.version,
        epoch=state.epoch,
        committed_at_ms=now_ms,
        ranges=plan.ranges,
        records=records,
        processed=state.last.processed + records,
        tokens=[token for job in outcome.jobs for token in job.tokens],
        pstates=pstates,
        floor=max(floor, state.last.floor),
        appends=[rows for job in outcome.jobs for each in job.manifests for rows in each.appends],
        timeline=state.last.timeline,
        horizon=horizon,
        clocks=clocks_after(state.last.clocks, plan, outcome, state.vnode_counts),
        revision=plan.revision,
        rows=outcome.rows,
        delivered=state.delivered,
    )


def _pstate_commit(
    name: str, vnode_count: int, plan: Plan, state: State, outcome: Outcome
) -> tuple[PStateCommit, list[int]]:
    before = state.last.pstates.get(name)
    touched = [0] * vnode_count if before is None else unpack_ids(before.touched)
    logs = [job.logs(name) for job in outcome.jobs]
    for job_logs in logs:
        for log in job_logs:
            for vnode in log.vnodes:
                touched[vnode] = plan.id
    written = [
        manifest.checkpoints[name]
        for job in outcome.jobs
        for manifest in job.manifests
        if name in manifest.checkpoints
    ]
    again = state.checkpoints.named_again(plan.id, state.options.checkpoint_commits, name)
    generations = _generations(name, vnode_count, state, outcome)
    since = 0 if before is None else before.since
    return PStateCommit(pack_ids(touched), logs, written + again, generations, since), touched


def _generations(name: str, vnode_count: int, state: State, outcome: Outcome) -> bytes:
    """How many migrations each vnode has been through after the attempt."""
    before = state.last.pstates.get(name)
    packed = b"" if before is None else before.generations
    migrated = [
        vnode
        for job in outcome.jobs
        for manifest in job.manifests
        for vnode in manifest.migrated.get(name, ())
    ]
    if not migrated:
        return packed
    known = unpack_ids(packed) if packed else [0] * vnode_count
    for vnode in migrated:
        known[vnode] = state.migrations[name].generation
    return pack_ids(known)
