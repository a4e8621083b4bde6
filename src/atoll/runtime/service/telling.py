"""What the copies of a runtime have to know of its last change: records of the intake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from atoll.runtime.engine.compile import TOPOLOGY
from atoll.runtime.engine.keyed import Places
from atoll.runtime.service.moving import parcels
from atoll.runtime.service.running import RunningRuntime


@contextmanager
def at_rest(running: RunningRuntime) -> Iterator[None]:
    """Nothing is processed, so what is kept stays as it is; goes on afterwards if it runs."""
    topology = running.app.topology(TOPOLOGY)
    topology.pause()
    try:
        yield
    finally:
        if running.registered.status == "running":
            topology.resume()


def told(running: RunningRuntime) -> list[dict[str, Any]]:
    """The records that follow from the last change, for one append.

    Where state moves, the topology is paused, and stays so until they are appended: the clock
    alone could change what they say.
    """
    runtime = running.registered
    life = {"revision": runtime.revision}
    match runtime.last:
        case "started":
            return [running.control("start", "", life)]
        case "stopped":
            return [running.control("stop", "", life)]
        case "scaled":
            return list(_scaled(running, life))
    return []


def _scaled(running: RunningRuntime, life: dict[str, Any]) -> Iterator[dict[str, Any]]:
    runtime = running.registered
    places: Places = {}
    if runtime.move:
        running.app.topology(TOPOLOGY).pause()
        places = running.places()
    for copy in sorted(places):
        yield running.control("leave", "", life, copy)
    gone = range(runtime.copies + 1, runtime.copies_before + 1) if runtime.drop else ()
    for copy in gone:
        yield running.control("drop", "", life, copy)
    if runtime.status == "running":
        yield running.control("start", "", {**life, "from": runtime.copies_before + 1})
    yield from running.last_offers()
    for copy, actor, body in parcels(places, runtime.copies):
        yield running.control("take", actor, body, copy)
