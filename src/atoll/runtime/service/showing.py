"""Runtimes as people see them, as of the last commit: plain data, in Coral's shapes where sane."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial, reduce
from typing import Any

import msgspec

from atoll.errors import AtollError, NotFoundError
from atoll.runtime.engine.instances import state_in_offer
from atoll.runtime.engine.memory import FAILURE, OFFER, Failure, Kept, Offer, current, group_value
from atoll.runtime.engine.program import ActorProgram, kind_of_instance
from atoll.runtime.service.registry import Registered
from atoll.runtime.service.running import SeenRuntime
from atoll.runtime.service.statistics import Statistics

INSTANCES_MAX = 1_000
"""So many instances and groups an answer shows; it counts all."""


def time_text(ms: int | None) -> str | None:
    """A time, in UTC; Coral's had no zone."""
    if ms is None:
        return None
    at = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def runtime_shown(
    runtime: Registered, copy: int | None = None, failure: AtollError | None = None
) -> dict[str, Any]:
    """A runtime, or one of its copies."""
    shown: dict[str, Any] = {
        "id": runtime.id,
        "owner": runtime.owner,
        "name": runtime.name,
        "uniqueName": runtime.unique_name,
        "status": runtime.status,
        "project": runtime.definition.get("projectid"),
        "json": runtime.definition,
        "created": time_text(runtime.created),
        "starttime": time_text(runtime.started),
        "copies": runtime.copies,
        "module": runtime.module,
        "revision": runtime.revision,
    }
    if copy is not None:
        shown["copy"] = copy
    if failure is not None:
        shown["error"] = {"code": failure.code, "message": failure.message, "hint": failure.hint}
    return shown


def runtime_stats(running: SeenRuntime, copy: int | None = None) -> dict[str, Any]:
    """The statistics of a runtime, the sums over its copies; or those of one copy.

    What copies counted that are no more counts on.
    """
    counted = running.counters()
    actors = running.program.actors
    by_copy = {
        each: Statistics.of(counted.get(each, {}), actors)
        for each in sorted({*counted, *range(1, running.program.copies + 1)})
    }
    told = {"runtime": running.registered.unique_name}
    if copy is not None:
        return {**told, "copy": copy, **by_copy[copy].to_json()}
    gone = [each for each in by_copy if each > running.program.copies]
    total = reduce(Statistics.plus, by_copy.values(), Statistics())
    absent = sum(by_copy[each].actors for each in gone)
    total = msgspec.structs.replace(total, actors=total.actors - absent)
    copies = {str(each): found.to_json() for each, found in by_copy.items()}
    return {**told, **total.to_json(), "copies": copies}


def actor_shown(running: SeenRuntime, name: str, copy: int | None = None) -> dict[str, Any]:
    """An actor: its part of the definition, and what its type is."""
    actor = _actor(running, name)
    given = next(each for each in running.registered.definition["actors"] if each["name"] == name)
    kind = actor.kind
    return {
        "runtime": running.registered.unique_name,
        **({} if copy is None else {"copy": copy}),
        "actor": given,
        "stateful": kind.stateful,
        "effect": kind.effect,
        "fields": list(kind.fields),
        "targets": list(actor.targets),
        "instances": actor.declared.copies * (1 if copy else running.program.copies),
    }


def actor_stats(
    running: SeenRuntime,
    name: str,
    copy: int | None = None,
    instance: int | None = None,
    group: str | None = None,
) -> dict[str, Any]:
    """What an actor has done, and the state of its instances.

    Args:
        running: The runtime.
        name: The actor.
        copy: Only this copy.
        instance: Only this instance of each copy.
        group: Only this group.

    Raises:
        NotFoundError: When there is no such actor.
    """
    actor = _actor(running, name)
    counted = running.counters()
    copies = range(1, running.program.copies + 1) if copy is None else (copy,)
    wanted = [each for each in counted if copy in (None, each)]
    parts = [Statistics.of({name: counted[each].get(name, {})}, (name,)) for each in wanted]
    total = reduce(Statistics.plus, parts, Statistics(counters={name: {}}))
    found = [
        shown
        for each in copies
        for shown in instances_of(running, actor, each)
        if instance in (None, shown["instance"]) and group in (None, shown.get("group"))
    ]
    failures = [failure for each in copies if (failure := _last_failure(running, name, each))]
    answer: dict[str, Any] = {
        "runtime": running.registered.unique_name,
        **({} if copy is None else {"copy": copy}),
        "actor": name,
        "type": actor.kind.name,
        "counters": total.counters[name],
        "instances": found[:INSTANCES_MAX],
        "instanceCount": len(found),
        "lastFailure": max(failures, key=lambda each: str(each["at"]), default=None),
    }
    if len(found) == 1:
        answer["state"] = found[0]["state"]
    return answer


def instances_of(running: SeenRuntime, actor: ActorProgram, copy: int) -> Iterator[dict[str, Any]]:
    """The instances of an actor in a copy and what each shows, those too that had no event yet."""
    if not actor.stateful:
        return
    stored = running.kept(copy, actor.name)
    data = stored.pop(OFFER, {}).get("")
    offer = None if data is None else msgspec.json.decode(data, type=Offer)
    kind, params = kind_of_instance(actor), actor.declared.params
    for instance in range(actor.declared.copies):
        groups = stored.get(instance, {})
        keys = sorted(groups) if actor.declared.group_by is not None else [""]
        for key in keys:
            if (key == "") != (actor.declared.group_by is None):
                continue
            found = groups.get(key)
            kept = Kept() if found is None else _kept(found)
            if kept.state is None:
                kept.state = kind.initial(params)
            kept = current(kept, offer, partial(state_in_offer, actor, key))
            group = group_value(key)
            yield {
                "copy": copy,
                "instance": instance,
                **({} if group is None else {"group": group}),
                "snapshot": kept.snapshot,
                "state": kind.read(params, kept.state),
            }


def _kept(data: str) -> Kept:
    return msgspec.json.decode(data, type=Kept)


def _last_failure(running: SeenRuntime, name: str, copy: int) -> dict[str, Any] | None:
    data = running.kept(copy, name).get(FAILURE, {}).get("")
    if data is None:
        return None
    failure = msgspec.json.decode(data, type=Failure)
    return {"copy": copy, "reason": failure.reason, "at": time_text(failure.at)}


def _actor(running: SeenRuntime, name: str) -> ActorProgram:
    found = running.program.actors.get(name)
    if found is None:
        raise NotFoundError(
            f"runtime {running.registered.name!r} has no actor {name[:100]!r}",
            hint="it has " + ", ".join(running.program.actors),
        )
    return found
