"""What a person paused, kept until a person lets it go on: over kills, restarts and updates.

A pause or a resumption is a numbered object beside the topology's plans; the highest one says
what is so. It bears the number of the timeline on which it was said, because a rollback pauses
too: the very object that begins a timeline says so, and there is no moment between the two. A
topology rests when the last thing said is a pause, or when nothing was said since a rollback.

The objects lie in the topology's own folder, so a topology that is removed leaves no pause behind.
"""

from __future__ import annotations

import contextlib

import msgspec

from atoll.microbatch.commits.timelines import read_timelines
from atoll.microbatch.epochs import Epoch
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

_KEPT = 100
"""So many of the last ones are kept, to look at."""


class Paused(msgspec.Struct, frozen=True):
    """Why a topology rests.

    Attributes:
        since_ms: Since when.
        why: ``asked``, or ``rollback to microbatch 3``.
        epoch: The life of the coordinator that was told to.
    """

    since_ms: int
    why: str
    epoch: int


class _Said(msgspec.Struct, frozen=True):
    """What somebody said of a topology.

    Attributes:
        paused: Whether it shall rest.
        timeline: The timeline at that time: only a later rollback pauses again.
        epoch: The life of the coordinator that was told.
        at_ms: When.
    """

    paused: bool
    timeline: int
    epoch: int
    at_ms: int


def pause_objects(store: ObjectStore, module: str, topology: str) -> NumberedObjects:
    """What was said of a topology, from 1 on."""
    return NumberedObjects(store, f"{module}/{topology}/pauses")


def paused(store: ObjectStore, module: str, topology: str) -> Paused | None:
    """Why a topology rests; None when it does not.

    Raises:
        DamageError: When what was said cannot be read.
    """
    said = _last(pause_objects(store, module, topology))
    if said is not None and said.paused:
        return Paused(said.at_ms, "asked", said.epoch)
    timelines = read_timelines(store, module, topology)
    if timelines.number <= (0 if said is None else said.timeline):
        return None
    begun = timelines.branches[-1]
    if not begun.pauses:  # made by an older version of Atoll, which kept no pauses
        return None
    return Paused(begun.at_ms, f"rollback to microbatch {begun.branch}", begun.epoch)


def rest(store: ObjectStore, epoch: Epoch, module: str, topology: str, now_ms: int) -> Paused:
    """Keep it that a topology rests from now on; one that rests already goes on doing so.

    Raises:
        FencedError: When another life of the coordinator owns the module.
        StorageError: When it cannot be kept.
    """
    known = paused(store, module, topology)
    if known is None:
        _say(store, epoch, module, topology, now_ms, rests=True)
        known = Paused(now_ms, "asked", epoch.number)
    return known


def let_go_on(store: ObjectStore, epoch: Epoch, module: str, topology: str, now_ms: int) -> None:
    """Keep it that a topology rests no longer.

    Raises:
        FencedError: When another life of the coordinator owns the module.
        StorageError: When it cannot be kept.
    """
    if paused(store, module, topology) is not None:
        _say(store, epoch, module, topology, now_ms, rests=False)


def _say(
    store: ObjectStore, epoch: Epoch, module: str, topology: str, now_ms: int, *, rests: bool
) -> None:
    objects = pause_objects(store, module, topology)
    timeline = read_timelines(store, module, topology).number
    payload = msgspec.msgpack.encode(_Said(rests, timeline, epoch.number, now_ms))
    while True:
        epoch.check()
        number = (objects.latest() or 0) + 1
        with contextlib.suppress(ObjectExistsError):
            objects.create(number, payload)
            break
    objects.delete_below(number - _KEPT)


def _last(objects: NumberedObjects) -> _Said | None:
    number = objects.latest()
    return None if number is None else msgspec.msgpack.decode(objects.read(number), type=_Said)
