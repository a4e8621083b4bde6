"""The revisions of plans: what attempts read once a plan turned out to be too large to run.

Revision 0 is the plan object itself. Each later one is a numbered object of its own, made with
create-if-absent like the plan, and takes the beginnings of what the one before it took, never
more. Whoever begins at a microbatch follows its newest revision. A coordinator that was fenced in
the middle of an attempt may still commit an older one: then its ranges count, for the commit says
which they are, and whatever is planned next begins where they end.
"""

from __future__ import annotations

from atoll.microbatch.commits.history import plan_objects
from atoll.microbatch.commits.objects import Commit, Plan, decode_plan, encode
from atoll.microbatch.plans.attempts import (
    delete_attempts,
    delete_attempts_above,
    delete_attempts_below,
)
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectStore

_SPAN = 1_000_000
"""Revision ``r`` of plan ``N`` has the number ``N * _SPAN + r``."""


def revision_objects(
    store: ObjectStore, module: str, topology: str, timeline: int = 0
) -> NumberedObjects:
    """The revisions of the plans of one timeline of a topology."""
    suffix = f"-{timeline}" if timeline else ""
    return NumberedObjects(store, f"{module}/{topology}/revisions{suffix}")


def newest_revision(store: ObjectStore, module: str, topology: str, plan: Plan) -> Plan:
    """The newest revision of a plan, made durable: whoever made it may have died."""
    revisions = revision_objects(store, module, topology, plan.timeline)
    while revisions.exists(_number(plan.id, plan.revision + 1)):
        taken = _number(plan.id, plan.revision + 1)
        revisions.settle(taken)
        plan = decode_plan(revisions.read(taken))
    return plan


def create_revision(store: ObjectStore, module: str, topology: str, plan: Plan) -> Plan:
    """Create a revision, or find the one that another coordinator made."""
    revisions = revision_objects(store, module, topology, plan.timeline)
    found = revisions.create_or_find(_number(plan.id, plan.revision), encode(plan))
    return plan if found is None else decode_plan(found)


def committed_plan(store: ObjectStore, module: str, topology: str, commit: Commit) -> Plan:
    """The revision of the plan that a commit followed.

    Raises:
        NotFoundError: When it was dropped.
    """
    if not commit.revision:
        plans = plan_objects(store, module, topology, commit.timeline)
        return decode_plan(plans.read(commit.id))
    revisions = revision_objects(store, module, topology, commit.timeline)
    return decode_plan(revisions.read(_number(commit.id, commit.revision)))


def delete_plan(
    store: ObjectStore, module: str, topology: str, timeline: int, commit: Commit
) -> None:
    """Delete the plan of a commit, and the revisions and attempts up to those that it is of."""
    store.delete(plan_objects(store, module, topology, timeline).name(commit.id))
    delete_attempts(store, module, topology, timeline, commit.id, commit.version)
    revisions = revision_objects(store, module, topology, timeline)
    for revision in range(1, commit.revision + 1):
        store.delete(revisions.name(_number(commit.id, revision)))


def delete_plans_below(
    store: ObjectStore, module: str, topology: str, timeline: int, number: int
) -> None:
    """Delete all plans of lower ids, whatever revisions they have."""
    plan_objects(store, module, topology, timeline).delete_below(number)
    revision_objects(store, module, topology, timeline).delete_below(_number(number, 0))
    delete_attempts_below(store, module, topology, timeline, number)


def delete_plans_above(
    store: ObjectStore, module: str, topology: str, timeline: int, number: int
) -> None:
    """Delete all plans of higher ids, whatever revisions they have."""
    plans = plan_objects(store, module, topology, timeline)
    revisions = revision_objects(store, module, topology, timeline)
    for objects, first in ((plans, number + 1), (revisions, _number(number + 1, 0))):
        for taken in objects.numbers(first):
            store.delete(objects.name(taken))
    delete_attempts_above(store, module, topology, timeline, number)


def plan_of(number: int) -> int:
    """The plan of which a revision has the number."""
    return number // _SPAN


def _number(plan: int, revision: int) -> int:
    assert revision < _SPAN, "each revision has fewer records than the one before"
    return plan * _SPAN + revision
