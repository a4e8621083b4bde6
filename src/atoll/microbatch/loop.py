"""Runs the coordinator's commands, one after the other, in a thread of its own.

This is the thin shell around ``coordinator.decide`` and ``actions.Actions``: it waits, takes
requests from other threads, and hands each event to the one and each command to the other.
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
from atoll.microbatch.coordinator import decide
from atoll.microbatch.objects import Commit
from atoll.microbatch.outcome import ActorFailure, failure_of
from atoll.microbatch.requests import Requests
from atoll.microbatch.status import Status
from atoll.microbatch.watch import FenceWatch
from atoll.placement.placement import Placement

__all__ = ["Observer", "TopologyLoop"]

_log = get_logger("atoll.microbatch")

Observer = Callable[[ev.Step, int], None]
"""Called after each numbered step of a microbatch with the step and the microbatch's id."""


class TopologyLoop(Requests):
    """One topology's microbatches, from the last commit on.

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
        super().__init__(Status(actions.topology, state), state.last)
        self.actions = replace(actions, publish=self._publish)
        self.depots = actions.depots
        self.fenced: FencedError | None = None
        self._observer = observer
        self._on_fenced = on_fenced
        self._watch = FenceWatch(actions.epoch, self._end_attempt)
        self._first = first
        self._durations: dict[str, float] = {}
        self._thread = threading.Thread(
            target=self._run, name=f"atoll-{actions.module}-{actions.topology}", daemon=True
        )

    # What others call ---------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()
        self._watch.start()

    def close(self) -> None:
        """Stop after the running microbatch; returns when the loop has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
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
                self._changed.notify_all()
        finally:
            self._ended = True

    def _go(self) -> None:
        event = self._first or self.actions.look()
        while not self._closing:
            state, command = decide(self.status.state, event)
            with self._changed:
                self.status.state = state
                self._changed.notify_all()
            following = self._execute(command)
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
        began = time.perf_counter()
        self.status.working()
        event = self.actions.perform(command)
        self.status.resting()
        self._measure(event, (time.perf_counter() - began) * 1000.0)
        return event

    def _halt(self, failure: ActorFailure) -> None:
        _log.error("fenced", topology=self.topology, reason=failure.message)
        self._watch.close()
        self.fenced = FencedError(failure.message, hint=failure.hint, **failure.context)
        if self._on_fenced is not None:
            self._on_fenced(self.fenced)

    def _end_attempt(self, reason: FencedError) -> None:
        """Called by the watcher: whatever the loop does or waits for, it shall halt now."""
        self._request(ev.CommitRefused(failure_of(reason)))
        self.actions.executor.cancel()

    def _publish(self, commit: Commit) -> None:
        with self._changed:
            self.published = commit
            self._changed.notify_all()

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
        return self.actions.look() if idle else ev.Retry()

    # Measuring ------------------------------------------------------------------------------------

    def _measure(self, event: ev.Event, duration_ms: float) -> None:
        """Keep what the status shows of a numbered step that has just ended."""
        step = _ENDED.get(type(event))
        if step is None:
            return
        if step == ev.Step.PRIME:
            self._durations = {}
        name = step.name.lower()
        self._durations[name] = self._durations.get(name, 0.0) + duration_ms
        if isinstance(event, ev.AttemptSucceeded):
            self.status.attempted(event.outcome)
        state = self.status.state
        if self._observer is not None and not isinstance(event, ev.Delivered):
            plan = event.plan if isinstance(event, ev.PlanReady) else state.plan
            self._observer(step, state.last.id if plan is None else plan.id)
        if step == ev.Step.TIDY:
            durations = {**self._durations, "total": sum(self._durations.values())}
            self.status.committed(state.last.id, state.last.records, durations)


_ENDED: dict[type[ev.Event], ev.Step] = {
    ev.PlanReady: ev.Step.PRIME,
    ev.AttemptSucceeded: ev.Step.PROCESS,
    ev.CommitCreated: ev.Step.COMMIT,
    ev.Delivered: ev.Step.PUBLISH,
    ev.Published: ev.Step.PUBLISH,
    ev.Tidied: ev.Step.TIDY,
}
"""Which step an event ends, or a part of it."""
