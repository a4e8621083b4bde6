"""Reads a topology's progress from its objects alone: what a coordinator needs to go on.

Nothing else is kept anywhere, so a new life of the coordinator begins here, and so does a reader.
"""

from __future__ import annotations

from atoll.errors import NotFoundError
from atoll.microbatch.checkpoints import Checkpoints
from atoll.microbatch.history import commit_objects, plan_objects, read_commit
from atoll.microbatch.objects import GENESIS, Commit, Plan, decode_plan
from atoll.storage.local import LocalStore

__all__ = ["known_checkpoints", "latest_commit", "pending_plan"]


def latest_commit(store: LocalStore, module: str, topology: str, hint: int = 0) -> Commit:
    """The last commit, or :data:`GENESIS`. ``hint`` is a commit known to exist, for speed."""
    number = commit_objects(store, module, topology).latest(hint or None)
    return GENESIS if number is None else read_commit(store, module, topology, number)


def pending_plan(store: LocalStore, module: str, topology: str, last: Commit) -> Plan | None:
    """The plan that follows the last commit, when an earlier attempt at it died."""
    plans = plan_objects(store, module, topology)
    try:
        return decode_plan(plans.read(last.id + 1))
    except NotFoundError:
        return None


def known_checkpoints(store: LocalStore, module: str, topology: str, last: Commit) -> Checkpoints:
    """The checkpoints that the commits since the floor name."""
    known = Checkpoints({})
    for commit_id in range(last.floor, last.id + 1):
        known = known.with_commit(read_commit(store, module, topology, commit_id))
    return known.above(last.floor)
