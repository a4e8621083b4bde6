"""Runs the coordinator's commands, one after the other, in a thread of its own.

This is the thin shell around :class:`atoll.microbatch.stepping.Stepper`: it waits, and takes
requests from other threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import msgspec

from atoll.errors import FencedError
from atoll.logs import get_logger
from atoll.microbatch import events as ev
from atoll.microbatch.actions import Actions
from atoll.microbatch.fence_watch import FenceWatch
from atoll.microbatch.outcome import ActorFailure, failure_of
from atoll.microbatch.stepping import Observer, Stepper
from atoll.placement.placement import Placement

_log = get_logger("atoll.microbatch")


_KILL_SECONDS = 0.02
"""Between two tries to cut an attempt off."""


class TopologyLoop(Stepper):
    """One topology's microbatches, from the last commit on, in a thread.

    Args:
        actions: What the coordinator can do.
        state: Progress as read from the objects.
        first: The event to begin with; a look at the depots when there is none.
        observer: Called after each numbered step.
        on_fenced: Called once when another life of the coordinator took over, with the reason;
            the loop has halted then.
    """

    def __init__(
        self,
        actions: Actions,
        state: ev.State,
        *,
        first: ev.Event | None = None,
        observer: Observer | None = None,
        on_fenced: Callable[[FencedError], None] | None = None,
    ) -> None:
        """Nothing runs before :meth:`start`."""
        super().__init__(actions, state, first=first, observer=observer, on_fenced=on_fenced)
        self._watch = FenceWatch(actions.epoch, self._end_attempt)
        self._ready = False
        self._released = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"atoll-{actions.module}-{actions.topology}", daemon=True
        )

    # What others call ---------------------------------------------------------------------------

    def get_ready(self) -> None:
        """Get the threads going; the topology's own waits."""
        self._thread.start()
        self._watch.start()
        self._ready = True

    def start(self) -> None:
        """Begin; call once."""
        if not self._ready:
            self.get_ready()
        self._released.set()

    def kill(self) -> None:
        """Cut the running attempt off and end; a task's Python function is not interrupted."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._released.set()
        self._watch.close()
        while self._thread.is_alive() and threading.current_thread() is not self._thread:
            self.actions.executor.cancel()  # again: the attempt may begin only now
            self._thread.join(_KILL_SECONDS)

    def close(self) -> None:
        """Stop after the running microbatch; returns when the loop has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._released.set()
        self._watch.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def place(self, to: Placement, timeout_seconds: float = 60.0, *, trial: bool = True) -> None:
        """Run on another placement, as :meth:`Requests.place` says.

        What can be got ready there is, before the running microbatches end.
        """
        if trial and not self._ended:
            try:
                self.actions.executor.prepare(to, self.published)
            except Exception as error:  # noqa: BLE001 - the first attempt there does it then
                _log.warning("not prepared", topology=self.topology, error=str(error))
        super().place(to, timeout_seconds, trial=trial)

    # The loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._go()
        except Exception as error:  # noqa: BLE001 - a defect: nobody may wait for it for ever
            _log.exception("the topology's thread ended", topology=self.topology)
            hint = "this is a defect of Atoll: nothing is lost, start the process again"
            failure = msgspec.structs.replace(failure_of(error), hint=hint)
            with self._changed:
                self.status.state = replace(
                    self.status.state, condition=ev.Condition.FAILED, failure=failure
                )
                self._ended = True
                self._changed.notify_all()
        finally:
            self.actions.executor.end_reading_ahead()
            self._ended = True

    def _go(self) -> None:
        self._released.wait()
        if self._closing:
            return
        event = self._first or self.actions.look(self.status.state.last)
        while not self._closing:
            following = self._execute(self._decide(event))
            if following is None:
                return
            event = following

    def _execute(self, command: ev.Command) -> ev.Event | None:
        match command:
            case ev.Wait(delay_ms):
                return self._sleep(delay_ms)
            case ev.Halt(failure):
                self._halt(failure)
                return self._sleep(None)
        return self._work(command)

    def _halt(self, failure: ActorFailure) -> None:
        self._watch.close()
        super()._halt(failure)

    def _end_attempt(self, reason: FencedError) -> None:
        """Called by the watcher: whatever the loop does or waits for, it shall halt now."""
        self._request(ev.CommitRefused(failure_of(reason)))
        self.actions.executor.cancel()

    # Waiting --------------------------------------------------------------------------------------

    def _sleep(self, delay_ms: int | None) -> ev.Event | None:
        """Wait for the delay, or a request, or (when idle) an append."""
        idle = self.status.state.step == ev.Step.IDLE
        until = None if delay_ms is None else time.monotonic() + delay_ms / 1000.0
        with self._changed:
            while not self._closing:
                if self._requests:
                    return self._requests.popleft()
                if idle and self._appended and delay_ms is not None:
                    break
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            if self._closing:
                return None
            self._appended = False
        return self.actions.look(self.status.state.last) if idle else ev.Retry()
