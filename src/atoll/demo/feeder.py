"""Appends the stream to the depots at a steady pace, in a thread of its own.

It never runs far ahead: when the topology lags by more than some seconds of the stream, it waits,
so that a slow machine shows a slower stream instead of a growing backlog.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from atoll.demo.nexmark import Nexmark
from atoll.demo.recount import Recount

_TICK_SECONDS = 0.1
_LAG_SECONDS_MAX = 5.0
_CHUNK_EVENTS_MAX = 50_000
_UNPACED_LAG_EVENTS_MAX = 400_000


class _App(Protocol):
    def depot(self, name: str) -> Any: ...


class Feeder:
    """Generates, appends and counts.

    Args:
        app: The deployed module of :mod:`atoll.demo.auctions`.
        stream: What to append.
        rate: Events per second; 0 for as many as go.
        lag: Says how many records wait to be processed.
    """

    def __init__(self, app: _App, stream: Nexmark, rate: int, lag: Callable[[], int]) -> None:
        self.recount = Recount()
        self.error: BaseException | None = None
        self._depots = {name: app.depot(name) for name in ("persons", "auctions", "bids")}
        self._stream = stream
        self._rate = rate
        self._lag = lag
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atoll-demo-feeder", daemon=True)

    def append(self, count: int) -> None:
        """Append and count the next events; not while the thread runs."""
        events = self._stream.events(self.recount.events, count)
        for name, batch in (
            ("persons", events.persons),
            ("auctions", events.auctions),
            ("bids", events.bids),
        ):
            if batch.num_rows:
                self._depots[name].append(batch)
        self.recount.add(events)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the append in progress and start no other.

        Raises:
            BaseException: What ended the feeding early, if anything did.
        """
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            if self._rate:
                self._paced()
            else:
                self._unpaced()
        except BaseException as error:  # noqa: BLE001 - raised again by stop()
            self.error = error

    def _paced(self) -> None:
        chunk = max(min(int(self._rate * _TICK_SECONDS), _CHUNK_EVENTS_MAX), 1)
        due_at = time.monotonic()
        while not self._stop.wait(max(due_at - time.monotonic(), 0.0)):
            if self._lag() > self._rate * _LAG_SECONDS_MAX:
                due_at = time.monotonic() + _TICK_SECONDS
                continue
            self.append(chunk)
            # Time lost to a slow append is not caught up in a burst.
            due_at = max(due_at + chunk / self._rate, time.monotonic() - _TICK_SECONDS)

    def _unpaced(self) -> None:
        while not self._stop.is_set():
            if self._lag() > _UNPACED_LAG_EVENTS_MAX:
                self._stop.wait(_TICK_SECONDS)
                continue
            self.append(_CHUNK_EVENTS_MAX)
