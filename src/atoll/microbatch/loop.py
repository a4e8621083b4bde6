"""Runs the coordinator's commands, one after the other, in a thread of its own.

This is the thin shell around ``coordinator.decide``: it reads the clock, the depots and the
objects, calls the executor, and reports what happened as the next event. It never decides.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from atoll.errors import (
    AtollError,
    FencedError,
    TopologyFailedError,
    UsageError,
    WaitTimeoutError,
)
from atoll.logs import get_logger
from atoll.microbatch import events as ev
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import Epoch
from atoll.microbatch.executor import AttemptError, Executor
from atoll.microbatch.history import commit_objects, plan_objects
from atoll.microbatch.objects import Commit, decode_commit, decode_plan, encode
from atoll.microbatch.outcome import ActorFailure, failure_of
from atoll.microbatch.status import Status
from atoll.microbatch.tidy import drop_below
from atoll.storage.local import LocalStore
from atoll.storage.objects import ObjectExistsError

__all__ = ["DepotOffsets", "Observer", "TopologyLoop"]

_log = get_logger("atoll.microbatch")

Observer = Callable[[ev.Step, int], None]
"""Called after each numbered step of a microbatch with the step and the microbatch's id."""


class DepotOffsets(Protocol):
    """What the loop asks of a depot."""

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset that the next record will get."""


class TopologyLoop:
    """One topology's microbatches, from the last commit on.

    Args:
        module: The module's name.
        topology: The topology's name.
        store: Where plans and commits are made.
        epoch: The life of the coordinator that this loop belongs to.
        executor: Runs the attempts.
        depots: The depots that the topology reads, by name.
        state: Progress as read from the objects.
        first: The event to begin with, when an earlier attempt left a plan.
        observer: Called after each numbered step.
        housekeeping: Called as part of step 5.
    """

    def __init__(  # noqa: PLR0913  # the parts are injected once, by the deployment
        self,
        module: str,
        topology: str,
        *,
        store: LocalStore,
        epoch: Epoch,
        executor: Executor,
        depots: Mapping[str, DepotOffsets],
        state: ev.State,
        first: ev.Event | None = None,
        observer: Observer | None = None,
        housekeeping: Callable[[], None] | None = None,
    ) -> None:
        """Nothing runs before :meth:`start`."""
        self.module = module
        self.topology = topology
        self.store = store
        self.epoch = epoch
        self.executor = executor
        self.depots = depots
        self.status = Status(topology, state)
        self.published: Commit = state.last
        self._observer = observer
        self._housekeeping = housekeeping
        self._first = first
        self._plans = plan_objects(store, module, topology)
        self._commits = commit_objects(store, module, topology)
        self._changed = threading.Condition()
        self._requests: deque[ev.Event] = deque()
        self._appended = False
        self._closing = False
        self._floor = state.last.floor
        self._step_began = time.perf_counter()
        self._durations: dict[str, float] = {}
        self._thread = threading.Thread(
            target=self._run, name=f"atoll-{module}-{topology}", daemon=True
        )

    # What others call ---------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the running microbatch; returns when the loop has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def notify_append(self) -> None:
        """Records were appended in this process: look now."""
        with self._changed:
            self._appended = True
            self._changed.notify_all()

    def pause(self, timeout_seconds: float = 60.0) -> None:
        """Start no further microbatch; returns when the running one has ended.

        Raises:
            WaitTimeoutError: When the running one takes longer; the pause still holds after it.
        """
        self._request(ev.Pause())
        self._wait(lambda state: state.condition != ev.Condition.RUNNING, timeout_seconds, "pause")

    def resume(self) -> None:
        """Go on, also after the topology failed.

        Raises:
            FencedError: When another life of the coordinator owns the module.
        """
        self._refuse_fenced(self.status.state)
        self._request(ev.Resume())
        self._wait(lambda state: state.condition == ev.Condition.RUNNING, 60.0, "resume")

    def wait_processed(self, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until so many records were processed over the topology's life, and are visible.

        Raises:
            TopologyFailedError: When the topology stopped as failed before.
            FencedError: When another life of the coordinator took over before.
            WaitTimeoutError: When the time is over.
        """

        def done(state: ev.State) -> bool:
            if self.published.processed >= count:
                return True
            self._refuse_fenced(state)
            if state.condition == ev.Condition.FAILED and state.failure is not None:
                raise TopologyFailedError(
                    f"topology {self.topology!r} failed: {state.failure.message}",
                    hint=state.failure.hint,
                    **state.failure.context,
                )
            return False

        self._wait(done, timeout_seconds, f"{count} processed records")

    # The loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        event = self._first or self._wake()
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
                _log.error("fenced", topology=self.topology, reason=failure.message)
                return self._sleep(None)
            case ev.CreatePlan():
                return self._guarded(lambda: self._create_plan(command))
            case ev.RunAttempt():
                return self._guarded(lambda: self._run_attempt(command))
            case ev.CreateCommit():
                return self._guarded(lambda: self._create_commit(command))
            case ev.Publish(commit):
                self._publish(commit)
                return ev.Published()
            case ev.Tidy(commit):
                self._tidy(commit)
                return ev.Tidied()

    def _guarded(self, action: Callable[[], ev.Event]) -> ev.Event:
        """Run an action; a fenced epoch or a failure becomes an event."""
        try:
            self.epoch.check()
            return action()
        except FencedError as error:
            return ev.CommitRefused(failure_of(error))
        except AttemptError as error:
            self._report(error.failure)
            return ev.AttemptFailed(error.failure)
        except (AtollError, OSError) as error:
            failure = failure_of(error)
            self._report(failure)
            return ev.AttemptFailed(failure)

    def _create_plan(self, command: ev.CreatePlan) -> ev.Event:
        self._begin()
        plan = command.plan
        try:
            self._plans.create(plan.id, encode(plan))
        except ObjectExistsError:
            plan = decode_plan(self._plans.read(plan.id))
        self._done(ev.Step.PRIME, plan.id)
        return ev.PlanReady(plan)

    def _run_attempt(self, command: ev.RunAttempt) -> ev.Event:
        self._step_began = time.perf_counter()
        timeout = float(self.status.state.options.phase_timeout_seconds)
        outcome = self.executor.run(command.plan, self.epoch.number, command.version, timeout)
        self.status.opened = outcome.opened()
        self.status.task_timings_ms = outcome.slowest_ms()
        self._done(ev.Step.PROCESS, command.plan.id)
        return ev.AttemptSucceeded(outcome, _now_ms())

    def _create_commit(self, command: ev.CreateCommit) -> ev.Event:
        commit = command.commit
        try:
            self._commits.create(commit.id, encode(commit))
        except ObjectExistsError:
            there = decode_commit(self._commits.read(commit.id))
            if there.epoch != self.epoch.number:
                raise FencedError(
                    f"microbatch {commit.id} was committed by epoch {there.epoch}",
                    hint="this module now runs in another process; stop this one",
                    epoch=self.epoch.number,
                ) from None
            commit = there  # an earlier attempt of this life got further than it knew
        self._done(ev.Step.COMMIT, commit.id)
        return ev.CommitCreated(commit)

    def _publish(self, commit: Commit) -> None:
        with self._changed:
            self.published = commit
            self._changed.notify_all()
        self._done(ev.Step.PUBLISH, commit.id)

    def _tidy(self, commit: Commit) -> None:
        try:
            self.executor.forget(commit.id)
            drop_below(self.store, self.module, self.topology, self._floor, commit)
            self._floor = commit.floor
            if self._housekeeping is not None:
                self._housekeeping()
        except (AtollError, OSError) as error:  # nothing is lost: the next one tries again
            _log.warning("tidy failed", topology=self.topology, error=str(error))
        self._done(ev.Step.TIDY, commit.id)
        durations = {**self._durations, "total": sum(self._durations.values())}
        self.status.committed(commit.id, commit.records, durations)

    # Waiting --------------------------------------------------------------------------------------

    def _wake(self) -> ev.Event:
        try:
            self.epoch.check()
        except FencedError as error:
            return ev.CommitRefused(failure_of(error))
        starts = {name: list(depot.start_offsets()) for name, depot in self.depots.items()}
        ends = {name: list(depot.end_offsets()) for name, depot in self.depots.items()}
        return ev.Wake(starts, ends, _now_ms())

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
        return self._wake() if idle else ev.Retry()

    def _request(self, event: ev.Event) -> None:
        with self._changed:
            self._requests.append(event)
            self._changed.notify_all()

    def _wait(self, done: Callable[[ev.State], bool], timeout_seconds: float, what: str) -> None:
        until = time.monotonic() + timeout_seconds
        with self._changed:
            while not done(self.status.state):
                left = until - time.monotonic()
                if self._closing:
                    raise UsageError(
                        f"topology {self.topology!r} was closed while waiting for {what}"
                    )
                if left <= 0:
                    raise WaitTimeoutError(
                        f"{what} of topology {self.topology!r} not reached in "
                        f"{timeout_seconds:g} s",
                        hint="look at the topology's status for its lag and error",
                        processed=self.published.processed,
                        step=self.status.state.step.name.lower(),
                    )
                self._changed.wait(left)

    def _refuse_fenced(self, state: ev.State) -> None:
        if state.condition == ev.Condition.FENCED and state.failure is not None:
            raise FencedError(state.failure.message, hint=state.failure.hint)

    # Measuring ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._durations = {}
        self._step_began = time.perf_counter()

    def _done(self, step: ev.Step, microbatch: int) -> None:
        now = time.perf_counter()
        self._durations[step.name.lower()] = (now - self._step_began) * 1000.0
        self._step_began = now
        if self._observer is not None:
            self._observer(step, microbatch)

    def _report(self, failure: ActorFailure) -> None:
        _log.warning(
            "attempt failed",
            topology=self.topology,
            code=failure.code,
            message=failure.message,
            **{f"at_{name}": value for name, value in failure.context.items()},
        )
        if failure.trace:
            _log.debug("trace of the failed attempt", trace=failure.trace)


def _now_ms() -> int:
    return int(time.time() * 1000)
