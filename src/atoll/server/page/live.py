"""What all pages follow: one stream of how the modules are, told whenever it changes.

A page that shows more of one thing asks for it when the stream says that this thing moved on. All
who follow share one look at the modules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import atoll
from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.errors import AtollError
from atoll.server.context import Served
from atoll.server.event_stream import Events, event_text
from atoll.server.problems import problem_for
from atoll.server.render import render_json

_PERIOD_SECONDS = 0.5
"""So often the modules are looked at, however many follow."""

_OF_TOPOLOGY = (
    "state",
    "id",
    "committed",
    "readable_from",
    "timeline",
    "version",
    "step",
    "processed",
    "records_per_second",
    "durations_ms",
    "skew",
    "attempts_failed",
    "failed_attempts",
    "error",
    "warnings",
    "paused",
    "filling",
    "cut",
)


class Looking:
    """The modules as they are, looked at anew at most every half second.

    Args:
        apps: The modules.
        now: A clock that only goes forward, in seconds.
    """

    def __init__(self, apps: Served, now: Callable[[], float] = time.monotonic) -> None:
        self._apps = apps
        self._now = now
        self._lock = threading.Lock()
        self._seen: dict[str, Any] | None = None
        self._at = 0.0

    def look(self) -> dict[str, Any]:
        """All of them, as plain data."""
        with self._lock:
            if self._seen is None or self._now() - self._at >= _PERIOD_SECONDS:
                self._seen = {
                    "version": atoll.__version__,
                    "modules": {
                        name: _module(app, runtime=self._apps.is_runtime(name))
                        for name, app in self._apps.items()
                    },
                }
                self._at = self._now()
            return self._seen


class Live:
    """What one page is told; it follows the protocol of answers that never end."""

    position: str | None = None

    def __init__(self, look: Callable[[], dict[str, Any]]) -> None:
        self._look = look
        self._over = threading.Event()
        self._told: dict[str, Any] | None = None

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def next(self, timeout_seconds: float | None = None) -> dict[str, Any] | None:
        """All modules when one of them changed; None when none did in time."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.closed:
            seen = self._look()
            if seen != self._told:
                self._told = seen
                return seen
            if end is not None and time.monotonic() >= end:
                return None
            self._over.wait(_PERIOD_SECONDS)
        return None

    def close(self, error: AtollError | None = None) -> None:  # noqa: ARG002 - of the protocol
        """End it."""
        self._over.set()


class ModuleEvents(Events):
    """Events named ``modules``."""

    def piece(self, told: Mapping[str, Any]) -> bytes:
        """All modules."""
        return event_text("modules", render_json(told))


def _module(app: AppOrStopped, *, runtime: bool) -> dict[str, Any]:
    """A module in short; one that breaks off while it is looked at says why."""
    try:
        status = app.status()
    except AtollError as error:
        status = {"state": "stopped", "error": problem_for(error), "topologies": {}, "depots": {}}
    return {
        "state": status["state"],
        "error": status["error"],
        "runtime": runtime,
        "topologies": {
            name: {
                **{part: each.get(part) for part in _OF_TOPOLOGY},
                "lag": {depot: sum(lags) for depot, lags in each["lag"].items()},
            }
            for name, each in status["topologies"].items()
        },
        "depots": {
            name: sum(each["end_offsets"]) - sum(each["start_offsets"])
            for name, each in status["depots"].items()
        },
    }
