"""Runs one source in a thread of its own: turn after turn, with waits, pauses and failures.

A source that fails or rests holds up nothing but its own depot. It tries again by itself, ever
less often; what is outside may come back, and a file may be corrected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from atoll.errors import AtollError, FencedError, StoppedError, WaitTimeoutError
from atoll.logs import get_logger
from atoll.sources.base import NoLongerThereError
from atoll.sources.feeding import Fed, Feeder
from atoll.sources.kept import SourceLog

_log = get_logger("atoll.sources")

_DELAY_SECONDS = 0.5
_DELAY_SECONDS_MAX = 30.0
_CLOSE_SECONDS = 10.0


class RunningSource:
    """A source that feeds a depot of a module that runs. Safe to use from many threads.

    Made by ``app.source(depot)``.

    Args:
        name: ``module/depot``.
        feeder: Takes the turns.
        log: What is kept of it.
        now_ms: The clock.
    """

    def __init__(
        self, name: str, feeder: Feeder, log: SourceLog, now_ms: Callable[[], int]
    ) -> None:
        self._name = name
        self._feeder = feeder
        self._log = log
        self._now_ms = now_ms
        self._changed = threading.Condition()
        self._paused = log.paused()
        self._stopping = False
        self._asked = False
        self._busy = False
        self._looks = 0
        self._over = False
        self._ended = False
        self._error: AtollError | None = None
        self._failures = 0
        self._records = self._refused = self._appends = 0
        self._last_append_ms: int | None = None
        self._lag: dict[str, Any] | None = None
        self._position: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._run, name=f"atoll-source-{name}", daemon=True)

    def __repr__(self) -> str:
        """Kind, depot and state: ``<files source of 'm/orders': running>``."""
        return f"<{self._feeder.source.kind} source of {self._name!r}: {self.state}>"

    @property
    def state(self) -> str:
        """``running``, ``paused``, ``failing`` (it tries again), ``ended`` or ``stopped``."""
        if self._over:
            return "ended" if self._ended else "stopped"
        if self._paused:
            return "paused"
        return "failing" if self._error is not None else "running"

    def status(self) -> dict[str, Any]:
        """State, position, lag and the last failure; counts are since the module started."""
        error = self._error
        return {
            "kind": self._feeder.source.kind,
            "place": self._feeder.source.place,
            "state": self.state,
            "position": self._position,
            "lag": self._lag,
            "records": self._records,
            "refused": self._refused,
            "appends": self._appends,
            "last_append_ms": self._last_append_ms,
            "failures": self._failures,
            "error": None
            if error is None
            else {
                "code": error.code,
                "message": error.message,
                "hint": error.hint,
                "context": {key: str(value) for key, value in error.context.items()},
            },
        }

    def pause(self, timeout_seconds: float = 60.0) -> None:
        """Read no more until :meth:`resume`, also after a restart; returns when nothing is read.

        Raises:
            WaitTimeoutError: When an append takes longer than that; it rests after it.
        """
        self._say(paused=True)
        self._wait(lambda: not self._busy, "its append ends", timeout_seconds)

    def resume(self) -> None:
        """Go on, also at once after a failure."""
        self._say(paused=False)

    def wait_idle(self, timeout_seconds: float = 60.0) -> None:
        """Return when all that is there now is in the depot.

        Raises:
            AtollError: Why it cannot be read, when it fails meanwhile.
            WaitTimeoutError: When it takes longer.
        """
        with self._changed:
            seen, failures = self._looks, self._failures
            wanted = seen + (2 if self._busy else 1)  # the look that is under way began before
            self._changed.notify_all()
        self._wake()

        def done() -> bool:
            return self._looks >= wanted or self._failures != failures or self._over

        self._wait(done, "all of it is read", timeout_seconds)
        if self._looks < wanted and not self._ended:
            raise self._error or StoppedError(
                f"the source of {self._name!r} runs no more",
                hint="ask the app that runs now",
            )

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def close(self) -> None:
        """Read no more; an append that is under way ends, if it does so soon."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def stop(self) -> None:
        """Read no more, without waiting."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _say(self, *, paused: bool) -> None:
        self._log.pause(self._now_ms(), paused=paused)
        with self._changed:
            self._paused = paused
            self._asked = True
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._asked = True
            self._changed.notify_all()

    def _wait(self, done: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(done, timeout_seconds):
                raise WaitTimeoutError(
                    f"the source of {self._name!r} took longer than {timeout_seconds} s "
                    f"until {what}",
                    hint="look at its status, or wait longer",
                )

    def _run(self) -> None:
        delay = 0.0
        try:
            while self._rested(delay):
                delay = self._one_turn(delay)
                if self._over:
                    return
        finally:
            with self._changed:
                self._busy, self._over = False, True
                self._changed.notify_all()
            self._feeder.close()

    def _rested(self, seconds: float) -> bool:
        """Wait for the next turn; whether there is to be one."""
        until = time.monotonic() + seconds
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._stopping:
                left = until - time.monotonic()
                if not self._paused and (left <= 0 or self._asked):
                    self._asked, self._busy = False, True
                    return True
                self._changed.wait(None if self._paused else left)
            return False

    def _one_turn(self, delay: float) -> float:
        """Take a turn; how long to wait then."""
        try:
            fed = self._feeder.turn()
        except NoLongerThereError as error:  # nothing of it was stored: another plan is made
            self._note(error)
            return _DELAY_SECONDS
        except FencedError as error:
            self._note(error)
            self._over = True
            return 0
        except Exception as error:  # noqa: BLE001 - what is outside raises what it likes
            if not self._stopping:
                self._note(error)
            return min(max(2 * delay, _DELAY_SECONDS), _DELAY_SECONDS_MAX)
        return self._went_well(fed)

    def _went_well(self, fed: Fed | None) -> float:
        with self._changed:
            if self._error is not None:
                _log.warning("the source is read again", source=self._name)
            self._error = None
            lag = self._feeder.lag()
            self._lag = None if lag is None else {"waiting": lag.waiting, "of": lag.of}
            self._position = self._feeder.shown()
            if fed is not None:
                self._records += fed.records
                self._refused += fed.refused
                self._appends += 1
                self._last_append_ms = self._now_ms()
                return 0
            self._looks += 1
            self._over = self._ended = self._feeder.source.bounded
            self._changed.notify_all()
            return self._feeder.source.poll_seconds

    def _note(self, error: Exception) -> None:
        known = error if isinstance(error, AtollError) else None
        if known is None:
            known = AtollError(f"{type(error).__name__}: {error}")
        with self._changed:
            news = self._error is None or self._error.message != known.message
            self._error = known
            self._failures += 1
            self._changed.notify_all()
        if news:
            _log.error("a source cannot be read", source=self._name, error=str(known))
