"""Events and shunts for a runtime whose copies may be changed meanwhile.

With other copies a module is deployed anew, so for a moment it takes nothing: who sends waits for
that and goes on with the new one. What was accepted before is in the intake, which is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from atoll.errors import AtollError
from atoll.runtime.actors.interface import Event
from atoll.runtime.service.registry import Registered
from atoll.runtime.service.running import RunningRuntime, Sent
from atoll.runtime.service.runtimes import Runtimes

_SECONDS = 30.0
_T = TypeVar("_T")


def send(
    runtimes: Runtimes,
    runtime: Registered,
    actor: str,
    events: Sequence[Event],
    copy: int | None = None,
) -> Sent:
    """Take events; see :meth:`RunningRuntime.send`.

    Raises:
        BusyError: When a change of the runtime takes too long.
    """
    until = time.monotonic() + _SECONDS
    return _on(runtimes, runtime, until, lambda running: running.send(actor, events, copy))


def shunt(
    runtimes: Runtimes,
    runtime: Registered,
    actor: str,
    event: Event,
    copy: int | None = None,
    timeout_seconds: float = _SECONDS,
) -> dict[str, Any]:
    """Take an event and give the actor's answer; see :meth:`RunningRuntime.shunt`.

    Raises:
        BusyError: When a change of the runtime takes longer.
    """
    until = time.monotonic() + timeout_seconds
    asked = _on(runtimes, runtime, until, lambda running: running.ask(actor, event, copy))
    return _on(runtimes, runtime, until, lambda running: running.answer_of(asked, _left(until)))


def _on(
    runtimes: Runtimes, runtime: Registered, until: float, action: Callable[[RunningRuntime], _T]
) -> _T:
    """Do it with the module that runs, again with the next one when that was closed meanwhile."""
    running = runtimes.running(runtime)
    while True:
        try:
            return action(running)
        except AtollError:
            if not (running.left or running.gate.closed):
                raise
        running = runtimes.settled(runtime, _left(until))


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())
