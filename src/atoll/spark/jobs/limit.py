"""Ends the Spark jobs of an attempt, when their time is over or somebody asks for it.

Spark ends jobs by a tag. It tells the driver at once, but a task that computes in a Python worker
goes on until Spark kills that worker; so whoever goes on after a job that failed waits for that.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import uuid
from typing import TYPE_CHECKING

import msgspec

from atoll.beats import BEAT_SECONDS
from atoll.engine.runners import phase_timeout
from atoll.logs import get_logger
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, Manifest
from atoll.microbatch.stragglers import Stragglers
from atoll.spark.jobs.beating import TaskBeats
from atoll.spark.jobs.failures import job_failure
from atoll.spark.jobs.stages import stages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


_log = get_logger("atoll.spark")

_CANCEL_AGAIN_SECONDS = 0.25
"""A job may begin between two looks, so it is not enough to cancel once."""

_TASKS_GONE_SECONDS_MAX = 10.0
_LOOK_SECONDS = 0.02


class JobLimit:
    """Collects the frames of one attempt under a tag by which its running job is ended.

    Args:
        session: Whose jobs they are.
        timeout_seconds: How long all of them may take together.
        stragglers: Which of their tasks are silent; nobody is asked when None.
    """

    def __init__(
        self,
        session: SparkSession,
        timeout_seconds: float,
        stragglers: Stragglers | None = None,
    ) -> None:
        """The time runs from now on."""
        self.stragglers = stragglers or Stragglers("", math.inf)
        self.beats: TaskBeats | None = None
        """Where the tasks of the Spark job that runs say what they are at."""
        self.silent: ActorFailure | None = None
        self.context = session.sparkContext
        self.timeout_seconds = timeout_seconds
        self.until = time.monotonic() + timeout_seconds
        """When the time is over, by ``time.monotonic()``."""
        self.expired = False
        self.cancelled = False
        self.tag = f"atoll-{uuid.uuid4().hex}"
        self._stages: set[int] = set()
        self._called = threading.Event()
        self._ended = threading.Event()
        self._guarded = False

    def manifests(self, frame: DataFrame) -> list[Manifest]:
        """The manifests that the job's actors return, by unit.

        Raises:
            AttemptError: As :meth:`collect`.
        """
        rows = self.collect(frame)
        found = [msgspec.msgpack.decode(bytes(row[0]), type=Manifest) for row in rows]
        return sorted(found, key=lambda each: each.unit)

    def collect(self, frame: DataFrame) -> list[Row]:
        """The rows of a frame, by a job that can be ended.

        When it raises, no task of the attempt runs any more, unless it was cancelled.

        Raises:
            AttemptError: When Spark gave up, the time was over or :meth:`cancel` was called.
        """
        self.check()
        self._begin()
        try:
            return frame.collect()
        except Exception as error:
            with contextlib.suppress(Exception):  # Spark is gone, and says why in the first error
                self._await_tasks()
            raise AttemptError(self._failure(error)) from error

    def check(self) -> None:
        """Raise when the attempt is over.

        Raises:
            AttemptError: When its time is, a task is silent, or :meth:`cancel` was called.
        """
        now = time.monotonic()
        if now >= self.until:
            self.expired = True
        self.silent = self.silent or self.stragglers.look(now)
        if self.expired or self.cancelled or self.silent is not None:
            raise AttemptError(self._failure(None))

    def cancel(self) -> None:
        """End the running job, and begin no other. For other threads."""
        self.cancelled = True
        self._called.set()

    def end(self) -> None:
        """Stop the clock."""
        self._ended.set()
        self._called.set()
        if self._guarded:
            with contextlib.suppress(Exception):  # Spark is gone, and its tags with it
                self.context.removeJobTag(self.tag)

    def _begin(self) -> None:
        """Before the first Spark job: an attempt that needs none costs Spark nothing."""
        if not self._guarded:
            self._guarded = True
            self.context.addJobTag(self.tag)  # a session's own tags end no job here
            threading.Thread(target=self._guard, name="atoll-job-limit", daemon=True).start()

    def _guard(self) -> None:
        while not self._called.wait(max(0.0, min(BEAT_SECONDS, self.until - time.monotonic()))):
            if time.monotonic() >= self.until:
                self.expired = True
                break
            self._listen()
            if self.silent is not None:
                break
        while not self._ended.is_set():
            try:
                self._remember_stages()
                self.context.cancelJobsWithTag(self.tag)
            except Exception as error:  # noqa: BLE001 - Spark may be ending; else it works again soon
                _log.warning("ending a job failed", error=str(error))
            self._ended.wait(_CANCEL_AGAIN_SECONDS)

    def _listen(self) -> None:
        """Take what the tasks of the Spark job say that they are at."""
        beats = self.beats
        if beats is not None:
            now = time.monotonic()
            beats.hear(self.stragglers, now)
            self.silent = self.stragglers.look(now)

    def _remember_stages(self) -> None:
        """Spark forgets an ended job soon; a running one can be asked for its stages."""
        self._stages |= stages_of(self.context, self.tag)

    def _await_tasks(self) -> None:
        """Return when no task of the attempt runs, so its Python workers are gone as well."""
        if self.cancelled:
            return  # nobody goes on after it
        self._remember_stages()
        until = time.monotonic() + _TASKS_GONE_SECONDS_MAX
        while running := self._running_tasks():
            if time.monotonic() > until:
                _log.warning("tasks of an ended job are still running", tasks=running)
                return
            time.sleep(_LOOK_SECONDS)

    def _running_tasks(self) -> int:
        infos = map(self.context.statusTracker().getStageInfo, sorted(self._stages))
        return sum(info.numActiveTasks for info in infos if info is not None)

    def _failure(self, error: Exception | None) -> ActorFailure:
        if self.cancelled:
            return ActorFailure("E-CANCELLED", "the attempt was cancelled")
        if self.silent is not None:
            return self.silent
        if self.expired or error is None:
            return phase_timeout(self.timeout_seconds)
        return job_failure(error)
