"""Takes a coordinator from event to event, one command at a time.

It joins ``coordinator.decide`` and ``actions.Actions`` and keeps what the status shows. It has no
thread and never waits: :mod:`atoll.microbatch.loop` runs it in a thread, and a test takes every
step itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from atoll.beats import Beat, Task, watched
from atoll.errors import FencedError
from atoll.logs import get_logger
from atoll.microbatch import events as ev
from atoll.microbatch.actions import Actions
from atoll.microbatch.commits.objects import Commit
from atoll.microbatch.control.pausing import Paused, let_go_on, rest
from atoll.microbatch.control.requests import Requests
from atoll.microbatch.control.status import Status
from atoll.microbatch.control.warnings import step_warning
from atoll.microbatch.coordinator import decide
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.stragglers import Stragglers

_log = get_logger("atoll.microbatch")

Observer = Callable[[ev.Step, int], None]
"""Called after each numbered step of a microbatch with the step and the microbatch's id."""


class Beside(Protocol):
    """What goes on beside a topology until it becomes part of it."""

    def between(self, state: ev.State, event: ev.Wake) -> ev.Wake | ev.Join | ev.Joined:
        """Between two microbatches: the event to go on with, which may be the one given."""

    def describe(self) -> dict[str, Any]:
        """How far it is, JSON-able."""

    def pause(self, timeout_seconds: float) -> None:
        """Rest, until it is resumed."""

    def resume(self) -> None:
        """Go on."""

    def refuse_stopped(self) -> None:
        """Raise TopologyFailedError when it goes on no more by itself."""


class Stepper(Requests):
    """One topology's microbatches, from the last commit on, for whoever moves them.

    Args:
        actions: What the coordinator can do.
        state: Progress as read from the objects.
        first: The event to begin with; a look at the depots when there is none.
        observer: Called after each numbered step.
        on_fenced: Called once when another life of the coordinator took over, with the reason;
            nothing is done any more then.
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
        super().__init__(Status(actions.topology, state), state.last)
        self.actions = replace(actions, publish=self._publish)
        self.depots = actions.depots
        self.fenced: FencedError | None = None
        self._first = first
        self._observer = observer
        self._on_fenced = on_fenced
        self._durations: dict[str, float] = {}
        self._work_began = 0.0
        self.beside: Beside | None = None
        """What goes on beside the topology and will be part of it."""
        self.on_publish: list[Callable[[], None]] = []
        """Called when readers see another commit, in the thread that moves the topology."""
        self._stragglers = Stragglers(actions.topology, math.inf)

    def microbatch_state(self) -> dict[str, Any]:
        """What the topology is at, of one moment."""
        with self._changed:
            return self.status.microbatch()

    def get_ready(self) -> None:
        """Do what may fail before anything can be done; call once."""

    def start(self) -> None:
        """Begin; call once. Nothing of it can fail after :meth:`get_ready`."""
        raise NotImplementedError

    def close(self) -> None:
        """Begin nothing more; returns when nothing runs."""
        raise NotImplementedError

    def kill(self) -> None:
        """Leave off where it is, as if the process had died; returns when nothing runs."""
        raise NotImplementedError

    def _keep_pause(self) -> Paused:
        mine = self.actions
        return rest(mine.store, mine.epoch, mine.module, mine.topology, mine.now_ms())

    def _keep_resumption(self) -> None:
        mine = self.actions
        let_go_on(mine.store, mine.epoch, mine.module, mine.topology, mine.now_ms())

    def _decide(self, event: ev.Event) -> ev.Command:
        """What follows from an event."""
        if self.beside is not None and isinstance(event, ev.Wake):
            event = self.beside.between(self.status.state, event)
        state, command = decide(self.status.state, event)
        self.actions.options = state.options
        now_ms = self.actions.now_ms()
        with self._changed:
            self.status.decided(state, now_ms)
            self._begun = True
            self._changed.notify_all()
        return command

    def _work(self, command: ev.Work) -> ev.Event:
        """Do what was decided."""
        began = self._work_began = time.perf_counter()
        self.status.working()
        if isinstance(command, ev.CreateCommit) and command.ahead is not None:
            self.status.reading_ahead()
        if isinstance(command, ev.RunAttempt):  # whose tasks the executor watches
            event = self.actions.perform(command)
        else:
            event = self._watched(command)
        self.status.resting()
        self._measure(event, (time.perf_counter() - began) * 1000.0)
        return event

    def _watched(self, command: ev.Work) -> ev.Event:
        """Do it, and be named while it hangs: it is the driver's own, and nothing ends it.

        Whoever asks for the status is told beyond the phase timeout.
        """
        step = _DONE_IN.get(type(command))
        if step is None:
            return self.actions.perform(command)
        self._stragglers.limit_seconds = float(self.actions.options.phase_timeout_seconds)
        try:
            with watched(Task("coordinator", step.value), self._tell) as task:
                task.begin(("step", step.value, step.name.lower()))
                return self.actions.perform(command)
        finally:
            self._stragglers.over(self)
            self.status.hangs = None

    def _tell(self, beat: Beat) -> None:
        now = time.monotonic()
        self._stragglers.heard(self, beat, now)
        self._stragglers.look(now)
        lost = self._stragglers.lost(now)
        self.status.hangs = None if lost is None else step_warning(lost)

    def _halt(self, failure: ActorFailure) -> None:
        """Another life is in charge."""
        _log.error("fenced", topology=self.topology, reason=failure.message)
        self.fenced = FencedError(failure.message, hint=failure.hint, **failure.context)
        if self._on_fenced is not None:
            self._on_fenced(self.fenced)

    def _publish(self, commit: Commit) -> None:
        with self._changed:
            if commit.id > self.published.id:
                since = (time.perf_counter() - self._work_began) * 1000.0
                before = self._durations.get(_PUBLISH, 0.0)
                self.status.published(commit, {**self._durations, _PUBLISH: before + since})
            self.published = commit
            self._changed.notify_all()
        for tell in self.on_publish:
            tell()

    def wait_alone(self, timeout_seconds: float) -> None:
        """Wait until nothing goes on beside the topology that is to be part of it.

        Raises:
            TopologyFailedError: When the topology, or what goes on beside it, failed.
            FencedError: When another life of the coordinator took over.
            StoppedError: When the module is closed before.
            WaitTimeoutError: When the time is over.
        """

        def done(state: ev.State) -> bool:
            beside = self.beside
            if beside is None:
                return True
            self._refuse_stopped(state)
            beside.refuse_stopped()
            return False

        self._wait(done, timeout_seconds, "the end of the filling")

    def take_over(self, actions: Actions) -> None:
        """Go on with other steps from the next microbatch on; in the thread that moves it."""
        self.actions.executor.end_reading_ahead()
        self.actions = replace(actions, publish=self._publish)

    def _measure(self, event: ev.Event, duration_ms: float) -> None:
        """Keep what the status shows of a numbered step that has just ended, or failed."""
        if isinstance(event, ev.AttemptFailed):
            self.status.failed(event.failure, self.actions.now_ms())
        self.status.cuts_total += isinstance(event, ev.PlanCut)
        step = STEP_ENDED.get(type(event))
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


_PUBLISH = ev.Step.PUBLISH.name.lower()

_DONE_IN: dict[type[ev.Work], ev.Step] = {
    ev.CreatePlan: ev.Step.PRIME,
    ev.Weigh: ev.Step.PRIME,
    ev.CutPlan: ev.Step.PRIME,
    ev.CreateCommit: ev.Step.COMMIT,
    ev.Deliver: ev.Step.PUBLISH,
    ev.Publish: ev.Step.PUBLISH,
    ev.Tidy: ev.Step.TIDY,
}
"""In which step the driver does something."""

STEP_ENDED: dict[type[ev.Event], ev.Step] = {
    ev.PlanReady: ev.Step.PRIME,
    ev.AttemptSucceeded: ev.Step.PROCESS,
    ev.CommitCreated: ev.Step.COMMIT,
    ev.Delivered: ev.Step.PUBLISH,
    ev.Published: ev.Step.PUBLISH,
    ev.Tidied: ev.Step.TIDY,
}
"""Which step an event ends, or a part of it."""
