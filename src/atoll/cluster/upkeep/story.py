"""What happened to a module, newest first: as the root keeps it, and as this process saw it.

Lives of the coordinator, revisions of the cluster, rollbacks and options that were set are numbered
objects, so they outlast the process; failed attempts are told of this life only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.cluster.scaling.revisions import Revision
from atoll.errors import NotFoundError
from atoll.microbatch.commits.timelines import read_timelines
from atoll.microbatch.control.tuning import Settings, SettingsLog
from atoll.microbatch.epochs import Life
from atoll.storage.numbered import NumberedObjects
from atoll.views.placed import CLUSTER

if TYPE_CHECKING:
    from atoll.microbatch.epochs import Epoch
    from atoll.microbatch.stepping import Stepper
    from atoll.storage.objects import ObjectStore

_EACH_MAX = 50
"""So many of each kind are told of, the newest."""


def story(
    store: ObjectStore, module: str, epoch: Epoch, loops: Mapping[str, Stepper]
) -> list[dict[str, Any]]:
    """Events, newest first: ``at_ms``, ``kind``, ``text``, and more by kind.

    Args:
        store: The root.
        module: The module's name.
        epoch: Its coordinator's life.
        loops: Its topologies.

    Raises:
        DamageError: When one of the objects is damaged.
    """
    found = [
        *_lives(epoch.objects),
        *_revisions(NumberedObjects(store, CLUSTER), module),
        *_options(SettingsLog(store, module).objects),
    ]
    for name, loop in loops.items():
        found += _rollbacks(store, module, name)
        found += _attempts(name, loop)
    return sorted(found, key=lambda each: each["at_ms"], reverse=True)


def _last(objects: NumberedObjects) -> Iterator[tuple[int, bytes]]:
    """The last ones; what is dropped meanwhile is passed over."""
    for number in objects.numbers()[-_EACH_MAX:]:
        with contextlib.suppress(NotFoundError):
            yield number, objects.read(number)


def _event(at_ms: int, kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"at_ms": at_ms, "kind": kind, "text": text, **more}


def _lives(objects: NumberedObjects) -> Iterator[dict[str, Any]]:
    for number, data in _last(objects):
        life = msgspec.msgpack.decode(data, type=Life)
        where = f"process {life.pid} on {life.host}"
        yield _event(life.began_at_ms, "life", f"epoch {number} began: {where}", epoch=number)


def _revisions(objects: NumberedObjects, module: str) -> Iterator[dict[str, Any]]:
    for number, data in _last(objects):
        made = msgspec.msgpack.decode(data, type=Revision)
        if made.module in ("", module):
            text = f"cluster revision {number}: {made.why}"
            yield _event(made.at_ms, "revision", text, revision=number)


def _options(objects: NumberedObjects) -> Iterator[dict[str, Any]]:
    before: dict[str, int] = {}
    for number, data in _last(objects):
        settings = msgspec.msgpack.decode(data, type=Settings)
        now = _flat(settings)
        for option in sorted({*before, *now}):
            if before.get(option) != now.get(option):
                text = f"{option} = {now[option]}" if option in now else f"{option} taken back"
                yield _event(settings.at_ms, "option", text, number=number)
        before = now


def _flat(settings: Settings) -> dict[str, int]:
    return {
        " ".join(filter(None, (level, name, option))): value
        for level, names in settings.values.items()
        for name, options in names.items()
        for option, value in options.items()
    }


def _rollbacks(store: ObjectStore, module: str, topology: str) -> Iterator[dict[str, Any]]:
    for branch in read_timelines(store, module, topology).branches[-_EACH_MAX:]:
        text = f"{topology} rolled back to microbatch {branch.branch}"
        yield _event(branch.at_ms, "rollback", text, topology=topology)


def _attempts(topology: str, loop: Stepper) -> Iterator[dict[str, Any]]:
    """Attempts that failed, of microbatches that committed since and of the one that runs."""
    told = [(each["id"], each["failed_attempts"]) for each in loop.status.recent()]
    state = loop.status.state
    running = state.last.id if state.plan is None else state.plan.id
    for number, attempts in [*told, (running, list(loop.status.attempts))]:
        for each in attempts:
            text = (
                f"{topology}: attempt {each['version']} at microbatch {number} failed: "
                f"{each['message']}"
            )
            more = {name: each[name] for name in ("code", "hint")}
            yield _event(each["at_ms"], "attempt", text, topology=topology, **more)
