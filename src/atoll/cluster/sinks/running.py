"""The sinks of a running module: a thread for each, so that none waits for another.

A sink that fails is tried again after a while that doubles from failure to failure. Nothing else
stops for it: rows are kept for it, and the status says since when, how many, and why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.cluster.sinks.delivering import BoundSink, SinkDelivery
from atoll.errors import AtollError, FencedError, SinkError
from atoll.logs import get_logger
from atoll.microbatch.backoff import delay_ms
from atoll.microbatch.outcome import failure_of
from atoll.microbatch.parcels.box import Waiting
from atoll.microbatch.parcels.sink_box import SinkBox

if TYPE_CHECKING:
    from atoll.microbatch.epochs import Epoch
    from atoll.microbatch.outcome import ActorFailure
    from atoll.storage.roots import RootStore

_LOOK_SECONDS = 1.0
"""Between two looks for parcels of which nobody told: those of a life that slept."""
_DELAY_MS_MAX = 60_000
_INTERNAL = "E-INTERNAL"
_HINT = "let the sink's target run and take rows; it goes on by itself then"
_CLOSE_SECONDS = 2.0
"""A parcel that is being written may be finished. One that is not is found out about later."""

_log = get_logger("atoll.sinks")


@dataclass(frozen=True)
class SinkFailure:
    """Why a sink was last not written.

    Attributes:
        what: The error.
        at_ms: When.
        count: How many times in a row.
        next_try_ms: When it is tried again.
    """

    what: ActorFailure
    at_ms: int
    count: int
    next_try_ms: int


class RunningSink:
    """One sink and its thread.

    Args:
        delivery: Writes what waits.
        now_ms: The clock.
    """

    def __init__(self, delivery: SinkDelivery, now_ms: Callable[[], int]) -> None:
        """Nothing is written before :meth:`start`, or :meth:`write`."""
        self.bound = delivery.bound
        self.box = delivery.box
        self._delivery = delivery
        self._now_ms = now_ms
        self._failure: SinkFailure | None = None
        self._last_failure: SinkFailure | None = None
        self._failures = 0
        self._writing_since_ms = 0
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"atoll-sink-{self.bound.name}", daemon=True
        )

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def wake(self) -> None:
        """Look now: there is a parcel."""
        self._woken.set()

    def write(self) -> int:
        """Write all that waits, now; returns how many parcels.

        Raises:
            FencedError: When another life has taken over.
            Exception: What the sink raised; it is in the status, too.
        """
        with self._writing:
            if self._stopping.is_set():
                return 0
            self._writing_since_ms = self._now_ms()
            try:
                count = self._delivery.deliver(self._stopping.is_set)
            except FencedError:
                raise
            except Exception as error:
                self._note(error)
                raise
            finally:
                self._writing_since_ms = 0
            if self._failure is not None:
                _log.warning("a sink is written again", **self._named())
            self._failure = None
            return count

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        self._woken.set()

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Write no more; what is being written may be finished, for some seconds."""
        self.stop()
        if self._writing.acquire(timeout=seconds):
            try:
                self._delivery.close()
            finally:
                self._writing.release()
        else:
            _log.warning("a sink is left while it is written", **self._named())

    def status(self) -> dict[str, Any]:
        """What it is, how far it is behind, and why."""
        taken, sink, failure = self._delivery.taken, self.bound.sink, self._failure
        try:
            waiting = self.box.waiting()
        except AtollError as error:  # of this box; the status of all else is still wanted
            waiting, now = Waiting(), self._now_ms()
            failure = failure or SinkFailure(failure_of(error), now, 0, now)
        return {
            "kind": sink.kind,
            "target": sink.target,
            "guarantee": str(sink.guarantee),
            "state": "failing" if failure is not None else "running",
            "waiting_microbatches": waiting.parcels,
            "waiting_records": waiting.records,
            "oldest_ms": waiting.oldest_ms,
            "writing_since_ms": self._writing_since_ms,
            "last_written": {
                "number": taken.number,
                "timeline": taken.timeline,
                "microbatch": taken.microbatch,
                "at_ms": taken.at_ms,
            },
            "failures": self._failures,
            "error": None if failure is None else _told(failure),
            "last_failure": None if self._last_failure is None else _told(self._last_failure),
        }

    # Inside ---------------------------------------------------------------------------------------

    def _note(self, error: Exception) -> None:
        before, now = self._failure, self._now_ms()
        count = 1 if before is None else before.count + 1
        what = failure_of(error)
        if what.code == _INTERNAL:
            what = msgspec.structs.replace(what, code=SinkError.code, hint=_HINT)
        wait = delay_ms(count, _DELAY_MS_MAX, environmental=False)
        self._failure = self._last_failure = SinkFailure(what, now, count, now + wait)
        self._failures += 1
        if before is None or before.what.message != what.message:
            _log.error("a sink cannot be written", error=str(error), **self._named())

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                self.write()
            except FencedError:
                return
            except Exception:  # noqa: BLE001 - it is noted, and the next try may go well
                count = 1 if self._failure is None else self._failure.count
                wait = delay_ms(count, _DELAY_MS_MAX, environmental=False)
                self._stopping.wait(wait / 1000)
                continue
            self._woken.wait(_LOOK_SECONDS)
        with self._writing:  # who closed may not have waited until it was written
            self._delivery.close()

    def _named(self) -> dict[str, str]:
        _, topology, sink = self.box.place
        return {"topology": topology, "sink": sink}


class RunningSinks:
    """All sinks of a module.

    Args:
        store: The root.
        module: The module.
        epoch: Its life.
        now_ms: The clock.
    """

    def __init__(
        self, store: RootStore, module: str, epoch: Epoch, now_ms: Callable[[], int]
    ) -> None:
        """None; see :meth:`add`."""
        self._store = store
        self._module = module
        self._epoch = epoch
        self._now_ms = now_ms
        self._sinks: dict[str, dict[str, RunningSink]] = {}

    def add(self, topology: str, sinks: Iterable[BoundSink]) -> None:
        """Prepare the sinks of a topology."""
        self._sinks[topology] = {}
        for bound in sinks:
            box = SinkBox(self._store, self._module, topology, bound.name)
            box.identity()
            delivery = SinkDelivery(box, bound, self._epoch.number, self._epoch.check, self._now_ms)
            self._sinks[topology][bound.name] = RunningSink(delivery, self._now_ms)

    def of(self, topology: str) -> dict[str, RunningSink]:
        """Those of a topology, by name."""
        return self._sinks.get(topology, {})

    def status(self, topology: str) -> dict[str, dict[str, Any]]:
        """By sink of a topology how it is."""
        return {name: each.status() for name, each in sorted(self.of(topology).items())}

    def start(self) -> None:
        """Begin to write; call once."""
        for each in self._all():
            each.start()

    def write(self) -> int:
        """Write all that waits for any of them, now; returns how many parcels.

        Raises:
            Exception: What the first failing sink raised, after the others were written.
        """
        count, first = 0, None
        for each in self._all():
            try:
                count += each.write()
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001 - raised in the end
                first = first or error
        if first is not None:
            raise first
        return count

    def close(self) -> None:
        """Write no more; all that are being written have the same few seconds to end."""
        for each in self._all():
            each.stop()
        until = time.monotonic() + _CLOSE_SECONDS
        for each in self._all():
            each.close(max(0.0, until - time.monotonic()))

    def _all(self) -> list[RunningSink]:
        return [each for sinks in self._sinks.values() for each in sinks.values()]


def _told(failure: SinkFailure) -> dict[str, Any]:
    return {
        "code": failure.what.code,
        "message": failure.what.message,
        "hint": failure.what.hint,
        "context": failure.what.context,
        "at_ms": failure.at_ms,
        "count": failure.count,
        "next_try_ms": failure.next_try_ms,
    }
