"""Threads in which attempts run, so that one that hangs can be left behind.

Whoever asks for an attempt waits for it and watches it. An attempt that is over before it has
ended is told so at the next beat of its task, which is soon where it only is slow. One that hangs
beats no more: it is left to its thread, which nothing in Python can end, and another thread takes
the next attempt. Should the one left behind ever go on, its first beat ends it; what it may do
until then is what a late task may do anywhere: it holds stores for a time (others take them away
from it), it is fenced by the attempts that came after it, and nobody counts its tokens.
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from atoll.beats import Task, TaskEndedError, running
from atoll.logs import get_logger
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.stragglers import Stragglers

_Made = TypeVar("_Made")

_LOOK_SECONDS = 0.5
GRACE_SECONDS = 0.5
"""So long a task that was given up may take to its next beat."""

_log = get_logger("atoll.engine")


class _Call(Generic[_Made]):
    """One attempt, between the thread that asks for it and the one that runs it."""

    def __init__(self, work: Callable[[], _Made]) -> None:
        self.task = Task("task", 0)
        self.changed = threading.Event()
        self.ended = False
        self.over: ActorFailure | None = None
        self.made: _Made | None = None
        self.error: BaseException | None = None
        self._work = work
        self._context = contextvars.copy_context()

    def run(self) -> None:
        """For the thread that runs it."""
        with running(self.task):
            try:
                self.made = self._context.run(self._work)
            except BaseException as error:  # noqa: BLE001 - raised by who waits for it
                self.error = error
        self.ended = True
        self.changed.set()

    def end(self, why: ActorFailure) -> None:
        """It is over, if it has not ended yet. For any thread."""
        self.over = self.over or why
        self.task.ended = True
        self.changed.set()


class _Runner:
    """A thread that runs one call after the other."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call[object]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="atoll-attempts", daemon=True).start()

    def take(self, call: _Call[object]) -> None:
        self._calls.put(call)

    def _run(self) -> None:
        while True:
            call = self._calls.get()
            call.run()
            del call  # what it made is not kept until the next one comes


_idle: list[_Runner] = []
"""Of this process, for whoever runs attempts in it."""

os.register_at_fork(after_in_child=_idle.clear)


class Attempts:
    """The attempts of one topology in this process, one at a time."""

    def __init__(self) -> None:
        self._call: _Call[object] | None = None

    def run(
        self, work: Callable[[], _Made], timeout_seconds: float, stragglers: Stragglers
    ) -> _Made:
        """Run an attempt in a thread of its own, and watch it.

        Raises:
            AttemptError: When it took too long, was silent for too long, or was cancelled.
            BaseException: What the work raised.
        """
        call: _Call[object] = _Call(work)
        try:
            runner = _idle.pop()
        except IndexError:
            runner = _Runner()
        self._call = call
        until = time.monotonic() + timeout_seconds
        runner.take(call)
        try:
            _await(call, until, timeout_seconds, stragglers)
        except BaseException:
            call.task.ended = True
            raise
        finally:
            self._call = None
            if call.ended:
                _idle.append(runner)
        if call.over is not None:
            raise AttemptError(call.over)
        if call.error is not None:
            assert not isinstance(call.error, TaskEndedError), "nobody gave it up"
            raise call.error
        return call.made  # type: ignore[return-value]  # what the work made

    def cancel(self) -> None:
        """End the attempt that runs. For any thread."""
        call = self._call
        if call is not None:
            call.end(ActorFailure("E-CANCELLED", "the attempt was cancelled"))


def _await(
    call: _Call[object], until: float, timeout_seconds: float, stragglers: Stragglers
) -> None:
    """Return when it has ended, or was left behind."""
    count = -1
    while not call.ended and call.over is None:
        now = time.monotonic()
        if now >= until:
            call.end(phase_timeout(timeout_seconds))
            break
        call.changed.wait(min(_LOOK_SECONDS, until - now))
        if call.ended or call.over is not None:
            break
        beat = call.task.found(count)
        count = beat.count
        stragglers.heard(call, beat, time.monotonic())
        failure = stragglers.look(time.monotonic())
        if failure is not None:
            call.end(failure)
    given_up = time.monotonic() + GRACE_SECONDS
    while not call.ended and (left := given_up - time.monotonic()) > 0:
        call.changed.clear()
        if not call.ended:
            call.changed.wait(left)
    if not call.ended:
        beat = call.task.found(call.task.beats)
        _log.warning(
            "an attempt that hangs was left behind in its thread",
            topology=stragglers.topology,
            step=beat.step,
            stack=beat.stack,
        )


def phase_timeout(seconds: float) -> ActorFailure:
    """Why an attempt failed that took longer than it may."""
    return ActorFailure(
        "E-PHASE-TIMEOUT",
        f"the attempt took longer than {seconds:g} s",
        "raise topology.microbatch.phase.timeout.seconds, or take fewer records at once",
    )
