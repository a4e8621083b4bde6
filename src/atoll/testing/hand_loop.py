"""Moves one topology by hand: the coordinator and its actions as they run anywhere, no thread.

Every wait ends at once: that for a request when it came, that after a failure by moving the
virtual clock on. So whoever asks for something (a pause, a rollback) takes the steps to it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from atoll.errors import UsageError
from atoll.microbatch import events as ev
from atoll.microbatch.stepping import STEP_ENDED, Stepper
from atoll.testing.failing import FailingExecutor

if TYPE_CHECKING:
    from atoll.microbatch.actions import Actions
    from atoll.microbatch.commits.objects import Commit
    from atoll.testing.clock import VirtualClock


_RECORDS_MAX = "depot.microbatch.max.records"
_PATIENCE_SECONDS = 3_600.0
"""How much virtual time failed attempts may take before a call gives up."""


class HandLoop(Stepper):
    """One topology's microbatches, each taken when it is asked for.

    Args:
        actions: What the coordinator can do.
        state: Progress as read from the objects.
        clock: What is moved on instead of waiting.
        others: As :class:`Stepper` takes them.
    """

    def __init__(
        self, actions: Actions, state: ev.State, *, clock: VirtualClock, **others: Any
    ) -> None:
        self.executor = FailingExecutor(actions.executor)
        super().__init__(replace(actions, executor=self.executor), state, **others)
        self._clock = clock
        self._command: ev.Command = ev.Wait(0)

    def take_over(self, actions: Actions) -> None:
        """Go on with other steps."""
        self.executor = FailingExecutor(actions.executor)
        super().take_over(replace(actions, executor=self.executor))

    def start(self) -> None:
        """Deliver what the life before may owe; run nothing yet."""
        self._command = self._decide(self._first or self.actions.look(self.status.state.last))
        while isinstance(self._command, ev.Deliver):
            self.go()

    def close(self) -> None:
        """Take no further step."""
        self._closing = True

    def kill(self) -> None:
        """Take no further step."""
        self._closing = True

    @property
    def paused(self) -> bool:
        """Whether somebody has paused it."""
        return self.status.state.condition == ev.Condition.PAUSED

    # Moving ---------------------------------------------------------------------------------------

    def go(self) -> ev.Event | None:
        """Do the next thing; what came of it, or None when there is nothing to do."""
        self._refuse_closed()
        event: ev.Event | None
        match self._command:
            case ev.Halt(failure):
                if self.fenced is None:
                    self._halt(failure)
                return None
            case ev.RunAttempt() if self._requests:  # it has not begun
                event = self._requests.popleft()
            case ev.Wait(delay_ms):
                event = self._after(delay_ms)
                if event is None:
                    return None
            case work:
                event = self._work(work)
        self._command = self._decide(event)
        return event

    def step(self) -> str:
        """Take the next numbered step of a microbatch; its name, ``failed`` or ``idle``.

        Raises:
            UsageError: When the topology is paused.
            TopologyFailedError: When the topology stopped as failed.
            FencedError: When another life of the coordinator took over.
        """
        self._refuse_resting()
        while True:
            event = self.go()
            if isinstance(event, ev.AttemptFailed | ev.DeliveryFailed):
                return "failed"
            if event is None or self._found_nothing(event):
                self._refuse_resting()
                return "idle"
            if type(event) in STEP_ENDED and not isinstance(event, ev.Delivered):
                return STEP_ENDED[type(event)].name.lower()

    def microbatch(self, max_records: int | None = None) -> Commit | None:
        """Run one microbatch, or the rest of one, to its commit; None when no records wait.

        Failed attempts are tried again, the delay between them passes on the virtual clock.

        Args:
            max_records: The most records to take from one depot partition; the option when None.

        Raises:
            UsageError: When the topology is paused.
            TopologyFailedError: When too many attempts failed.
            FencedError: When another life of the coordinator took over.
            WaitTimeoutError: When the storage refuses for an hour of virtual time.
        """
        self._refuse_resting()
        until_ms = self._clock.now_ms() + _PATIENCE_SECONDS * 1000
        while self._requests and isinstance(self._command, ev.Wait | ev.RunAttempt):
            self.go()
        with self._limited(max_records):
            while True:
                event = self.go()
                if isinstance(event, ev.Tidied):
                    return self.published
                if event is None or self._found_nothing(event):
                    self._refuse_resting()
                    return None
                self._refuse_stopped(self.status.state)
                if self._clock.now_ms() > until_ms:
                    raise self._not_reached("a commit", "in an hour of virtual time")

    # Inside ---------------------------------------------------------------------------------------

    def _after(self, delay_ms: int | None) -> ev.Event | None:
        """What ends the wait; None when only a request could."""
        if self._requests:
            return self._requests.popleft()
        state = self.status.state
        if delay_ms is None:
            return None
        if state.step == ev.Step.IDLE:
            return (
                self.actions.look(state.last) if state.condition == ev.Condition.RUNNING else None
            )
        self._clock.advance(delay_ms / 1000.0)
        return ev.Retry()

    def _found_nothing(self, event: ev.Event) -> bool:
        return isinstance(event, ev.Wake) and isinstance(self._command, ev.Wait)

    def _wait(self, done: Callable[[ev.State], bool], timeout_seconds: float, what: str) -> None:
        """Take steps until it is so; the timeout is one of the virtual clock."""
        until_ms = self._clock.now_ms() + timeout_seconds * 1000
        while not done(self.status.state):
            event = self.go()
            if done(self.status.state):
                break
            if (event is None or self._found_nothing(event)) and not self._requests:
                raise self._not_reached(what, "and nothing is left to do")
            if self._clock.now_ms() > until_ms:
                raise self._not_reached(what, f"in {timeout_seconds:g} s of virtual time")
        finishing = (ev.Step.PUBLISH, ev.Step.TIDY)  # what has committed
        while self.status.state.step in finishing and self._clock.now_ms() <= until_ms:
            self.go()

    @contextmanager
    def _limited(self, max_records: int | None) -> Iterator[None]:
        """Plan with another limit of records."""
        if max_records is None:
            yield
            return
        if not isinstance(max_records, int) or isinstance(max_records, bool) or max_records < 1:
            raise UsageError(
                f"a microbatch cannot take {max_records!r} records", hint="choose 1 or more"
            )
        state = self.status.state
        known = state.options
        by_depot = {
            depot: {name: value for name, value in values.items() if name != _RECORDS_MAX}
            for depot, values in known.by_depot.items()
        }
        limited = replace(known, microbatch_records_max=max_records, by_depot=by_depot)
        self.status.state = replace(state, options=limited)
        try:
            yield
        finally:
            self.status.state = replace(self.status.state, options=known)

    def _refuse_resting(self) -> None:
        self._refuse_stopped(self.status.state)
        if self.paused:
            raise UsageError(
                f"topology {self.topology!r} is paused, so it runs no microbatch",
                hint="resume it first",
            )

    def _refuse_closed(self) -> None:
        if self._closing:
            raise UsageError(
                f"topology {self.topology!r} was closed", hint="a driver that is closed is over"
            )
