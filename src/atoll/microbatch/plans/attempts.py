"""Which attempts at a plan were begun, so that the version rises over restarts, too.

A plan that stands may have been tried once: nothing is written for that. Every further attempt
takes a number of its own before it begins, made with create-if-absent like the plan. So a life
that finds a plan goes on above the highest version that any life before it may have used, and a
microbatch whose first attempt succeeds costs nothing more.
"""

from __future__ import annotations

import msgspec

from atoll.microbatch.commits.objects import Plan
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectStore

_SPAN = 1_000_000_000
"""Attempt ``v`` at plan ``N`` has the number ``N * _SPAN + v``."""

_FIRST_WRITTEN = 2


class Tried(msgspec.Struct, frozen=True, array_like=True):
    """Who began an attempt."""

    epoch: int
    at_ms: int


def attempt_objects(
    store: ObjectStore, module: str, topology: str, timeline: int = 0
) -> NumberedObjects:
    """The further attempts at the plans of one timeline of a topology."""
    suffix = f"-{timeline}" if timeline else ""
    return NumberedObjects(store, f"{module}/{topology}/attempts{suffix}")


def begin_attempt(  # what an attempt is
    store: ObjectStore, module: str, topology: str, plan: Plan, version: int, tried: Tried
) -> None:
    """Take a version of a plan; for the first one nothing is written."""
    if version >= _FIRST_WRITTEN:
        attempts = attempt_objects(store, module, topology, plan.timeline)
        attempts.create_or_find(plan.id * _SPAN + version, msgspec.msgpack.encode(tried))


def version_reached(store: ObjectStore, module: str, topology: str, plan: Plan) -> int:
    """The highest version that an attempt at a plan that stands may have had."""
    attempts = attempt_objects(store, module, topology, plan.timeline)
    reached = _FIRST_WRITTEN - 1
    while attempts.exists(plan.id * _SPAN + reached + 1):
        reached += 1
    return reached


def plan_tried(number: int) -> int:
    """The plan of which an attempt has the number."""
    return number // _SPAN


def delete_attempts(
    store: ObjectStore, module: str, topology: str, timeline: int, commit_id: int, version: int
) -> None:
    """Delete those at the plan of a commit, which one of that version made."""
    attempts = attempt_objects(store, module, topology, timeline)
    for each in range(_FIRST_WRITTEN, version + 1):
        store.delete(attempts.name(commit_id * _SPAN + each))


def delete_attempts_below(
    store: ObjectStore, module: str, topology: str, timeline: int, number: int
) -> None:
    """Delete those at all plans of lower ids."""
    attempt_objects(store, module, topology, timeline).delete_below(number * _SPAN)


def delete_attempts_above(
    store: ObjectStore, module: str, topology: str, timeline: int, number: int
) -> None:
    """Delete those at all plans of higher ids."""
    attempts = attempt_objects(store, module, topology, timeline)
    for taken in attempts.numbers((number + 1) * _SPAN):
        store.delete(attempts.name(taken))
