"""Reads a topology's progress from its objects alone: what a coordinator needs to go on.

Nothing else is kept anywhere, so a new life of the coordinator begins here, and so does a reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from atoll.errors import NotFoundError
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.history import (
    commit_objects,
    plan_objects,
    read_commit,
)
from atoll.microbatch.commits.objects import Commit, Plan, decode_plan
from atoll.microbatch.commits.timelines import read_timelines, timeline_objects
from atoll.microbatch.events import Begin
from atoll.microbatch.plans.attempts import version_reached
from atoll.microbatch.plans.revisions import newest_revision
from atoll.storage.objects import ObjectStore


def with_starts(last: Commit, starts: Mapping[str, list[int]], depots: Iterable[str]) -> Commit:
    """The progress with a beginning for depots that no commit has met."""
    ends = last.ends()
    ranges = {name: [(at, at) for at in ends.get(name, starts.get(name, []))] for name in depots}
    return msgspec.structs.replace(last, ranges=ranges)


def pending_plan(store: ObjectStore, module: str, topology: str, last: Commit) -> Plan | None:
    """The plan that follows the last commit, when an earlier attempt at it died.

    Its newest revision, where it was cut.
    """
    plans = plan_objects(store, module, topology, last.timeline)
    try:
        plans.settle(last.id + 1)
        plan = decode_plan(plans.read(last.id + 1))
        return newest_revision(store, module, topology, plan)
    except NotFoundError:
        return None


def beginning(store: ObjectStore, module: str, topology: str, last: Commit) -> Begin:
    """With what a new life begins: the plan left to it, how often it may have been tried.

    Nobody commits before the rows of the commit before are delivered: the last owes at most.
    """
    plan = pending_plan(store, module, topology, last)
    reached = 0 if plan is None else version_reached(store, module, topology, plan)
    return Begin(plan, (last,), reached)


def settle_commit(store: ObjectStore, module: str, topology: str, commit: Commit) -> None:
    """Make a commit durable that another life made: it may have died before it could."""
    timelines = read_timelines(store, module, topology, commit.timeline)
    if timelines.number:
        timeline_objects(store, module, topology).settle(timelines.number)
    if commit.id:
        commit_objects(store, module, topology, timelines.of(commit.id)).settle(commit.id)


def standing_commits(
    store: ObjectStore, module: str, topology: str, last: Commit
) -> tuple[Commit, ...]:
    """The commits from the floor of the last one up to it, oldest first."""
    timelines = read_timelines(store, module, topology, last.timeline)
    ids = range(last.floor, last.id + 1)
    return tuple(read_commit(store, module, topology, number, timelines) for number in ids)


def known_checkpoints(store: ObjectStore, module: str, topology: str, last: Commit) -> Checkpoints:
    """The checkpoints that the commits since the floor name."""
    known = Checkpoints({})
    for commit in standing_commits(store, module, topology, last):
        known = known.with_commit(commit)
    return known.above(last.floor)
