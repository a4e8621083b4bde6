"""The ways in which a scenario's process dies: before a call of the storage layer, or at a point.

A *point* is a moment of the protocol with a name: just before or just after a real function does
its work. The functions are wrapped in the child that is to die; the product knows nothing of it.
Everything here runs in children. Each says what it is about to die of, then kills itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from interpose import Call, Interposer
from scenario import live, say

import atoll.cluster.delivery
import atoll.engine.actor
import atoll.engine.inline
import atoll.microbatch.loop
from atoll.depot.depot import Depot
from atoll.depot.segments.segment_file import SegmentFile
from atoll.engine.attempt import JobSpecs
from atoll.microbatch.actions import Actions
from atoll.pstate.store.vnode_writer import VnodeWriter
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects

__all__ = ["POINTS", "at_call", "at_points", "count_calls", "count_points"]

Match = Callable[..., bool]


# Before a call ------------------------------------------------------------------------------------


def at_call(root: str, rounds: int, number: int, torn: bool = False, **options: int) -> None:
    """Live until the storage layer is about to make its n-th call; then die instead."""
    with Interposer(root) as calls:

        def tell(call: Call) -> None:
            if call.number == number:
                say("dying", [call.kind, call.path, call.target])

        calls.on_call = tell
        calls.kill_at(number, torn=torn)
        live(root, rounds, **options)


def count_calls(root: str, rounds: int) -> None:
    """Live to the end, and say how many calls there were of which kind."""
    kinds: Counter[str] = Counter()
    with Interposer(root) as calls:

        def tell(call: Call) -> None:
            kinds[call.kind] += 1

        calls.on_call = tell
        live(root, rounds)
        say("calls", [calls.calls, kinds])


# At a point ---------------------------------------------------------------------------------------


def _any(*_: Any) -> bool:
    return True


def _sequence(name: str) -> Match:
    """The objects of one numbered sequence."""
    return lambda objects, *_: objects.prefix.rsplit("/", 1)[-1] == name


def _named(part: str) -> Match:
    """Objects with a folder of that name in their name."""
    return lambda _, name, *__: f"/{part}/" in name


_WRAPPED: dict[str, tuple[Any, str, Match]] = {
    "deployment create": (NumberedObjects, "create", _sequence("deployments")),
    "epoch claim": (NumberedObjects, "create", _sequence("epochs")),
    "revision create": (NumberedObjects, "create", _sequence("cluster")),
    "depot claim": (NumberedObjects, "create", _sequence("writers")),
    "depot trim decision": (NumberedObjects, "create", _sequence("retained")),
    "plan create": (NumberedObjects, "create", _sequence("plans")),
    "commit create": (NumberedObjects, "create", _sequence("commits")),
    "segment publish": (SegmentFile, "publish", _any),
    "segment write": (SegmentFile, "write", _any),
    "segment sync": (SegmentFile, "sync", _any),
    "segment drop": (Depot, "_delete_below", _any),
    "store commit": (VnodeWriter, "commit", _any),
    "rows staged": (atoll.engine.actor, "stage", _any),
    "log write": (atoll.engine.actor, "write_change_file", _named("logs")),
    "checkpoint write": (atoll.engine.actor, "write_change_file", _named("checkpoints")),
    "manifest": (atoll.engine.inline, "run_actor", _any),
    "delivery": (atoll.cluster.delivery.Delivery, "__call__", lambda _, commit: commit.appends),
    "publish": (atoll.microbatch.loop.TopologyLoop, "_publish", _any),
    "staged drop": (JobSpecs, "forget", _any),
    "log drop": (LocalStore, "delete", _named("logs")),
    "checkpoint drop": (LocalStore, "delete", _named("checkpoints")),
    "plan drop": (LocalStore, "delete", _named("plans")),
    "commit drop": (LocalStore, "delete", _named("commits")),
    "tidy": (Actions, "_tidy", _any),
}
_STEPS = ("prime", "process", "commit", "publish", "tidy")

POINTS = (
    *(f"step {name}" for name in _STEPS),
    *(f"{when} {name}" for name in _WRAPPED for when in ("before", "after")),
)
"""Every point at which a process can be made to die."""


def at_points(root: str, rounds: int, point: str, visit: int = 1) -> None:
    """Live until a point is reached for the n-th time; then die there."""

    def reached(name: str, count: int) -> None:
        if name == point and count == visit:
            say("dying", [name, count])
            os.kill(os.getpid(), signal.SIGKILL)

    with _watched(reached) as observer:
        live(root, rounds, observer)


def count_points(root: str, rounds: int) -> None:
    """Live to the end, and say how often each point was reached."""
    counts: Counter[str] = Counter()

    def reached(name: str, count: int) -> None:
        counts[name] = count

    with _watched(reached) as observer:
        live(root, rounds, observer)
    say("points", counts)


@contextlib.contextmanager
def _watched(reached: Callable[[str, int], None]) -> Iterator[Callable[..., None]]:
    """Wrap the real functions; yields an observer of the five steps."""
    visits: Counter[str] = Counter()
    undo: list[tuple[Any, str, Any]] = []

    def visit(name: str) -> None:
        visits[name] += 1
        reached(name, visits[name])

    wrapped: dict[tuple[int, str], list[tuple[str, Match]]] = {}
    owners: dict[int, Any] = {}
    for name, (owner, attribute, match) in _WRAPPED.items():
        wrapped.setdefault((id(owner), attribute), []).append((name, match))
        owners[id(owner)] = owner
    for (identity, attribute), rules in wrapped.items():
        owner = owners[identity]
        original = getattr(owner, attribute)
        undo.append((owner, attribute, original))
        setattr(owner, attribute, _around(original, rules, visit))
    try:
        yield lambda step, _: visit(f"step {step.name.lower()}")
    finally:
        for owner, attribute, original in undo:
            setattr(owner, attribute, original)


def _around(
    original: Callable[..., Any], rules: list[tuple[str, Match]], visit: Callable[[str], None]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        names = [name for name, match in rules if match(*args)]
        for name in names:
            visit(f"before {name}")
        result = original(*args, **kwargs)
        for name in names:
            visit(f"after {name}")
        return result

    return call
