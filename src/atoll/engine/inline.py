"""Runs attempts in the calling process: no Spark, no JVM, one task after the other.

For tests, small modules and tools. It runs the very functions that Spark's tasks run: steps,
packers and actors, one actor per parallel unit. What needs Spark (column steps) it cannot run;
:func:`atoll.steps.columns.schemas.python_only` refuses such a topology when it is deployed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from atoll.engine.actor import run_actor
from atoll.engine.attempt import BlockSource, JobSpecs, described, has_work
from atoll.engine.exchange.blobs import Blob
from atoll.engine.exchange.feeding import feed_splits, packers_of
from atoll.engine.program import JobProgram, JobSpec, Program
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome, Way

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Commit, Plan
    from atoll.microbatch.control.options import Options
    from atoll.placement.placement import Placement
    from atoll.topology.jobs import Cut


class InlineExecutor:
    """One topology, run by the thread that asks for it.

    A task that runs is never interrupted: :meth:`cancel` and the phase timeout end an attempt
    before its next task.

    Args:
        program: The topology, bound; without column steps.
        cut: Its jobs.
        depots: The depots that it reads, by name.
    """

    def __init__(self, program: Program, cut: Cut, depots: Mapping[str, BlockSource]) -> None:
        """Nothing has run yet."""
        self.program = program
        self.cut = cut
        self.depots = depots
        self.specs = JobSpecs(program, cut, depots)
        self._cancelled = threading.Event()

    def run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run the jobs one after the other.

        Raises:
            AttemptError: When a task failed, the attempt was cancelled or the time was over.
        """
        self._cancelled.clear()
        self._place(placement)
        return self._run(self.specs, (plan, epoch, version), timeout_seconds)

    def run_carefully(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """As :meth:`run`, and find the records that cannot be processed.

        Raises:
            AttemptError: As :meth:`run`.
        """
        self._cancelled.clear()
        self._place(placement)
        program = self.program.tracking(self.cut.number.values())
        specs = JobSpecs(program, self.cut, self.depots, self.specs.options, careful=True)
        return self._run(specs, (plan, epoch, version), timeout_seconds)

    def prepare(self, placement: Placement, commit: Commit) -> None:
        """Nothing: there is one process, which has run the program."""

    def stand_by(self, placement: Placement) -> None:
        """Nothing."""

    def tune(self, options: Options) -> None:
        """Run with these options."""
        self.specs.options = options

    def cancel(self) -> None:
        """End the running attempt before its next task. Safe from any thread."""
        self._cancelled.set()

    def forget(self, microbatch: int) -> None:
        """Drop the rows staged by attempts at a microbatch."""
        self.specs.forget(microbatch)

    def _run(
        self, specs: JobSpecs, attempt: tuple[Plan, int, int], timeout_seconds: float
    ) -> Outcome:
        program = specs.program
        limit = _Limit(timeout_seconds, self._cancelled)
        done: list[JobOutcome] = []
        for job in program.jobs:
            spec = specs.spec(*attempt, job, done)
            work = has_work(job, spec)
            manifests = self._run_job(program, job, spec, limit) if work else []
            done.append(JobOutcome(job.index, manifests, Way.INLINE if work else None))
        return Outcome(done)

    def _place(self, placement: Placement) -> None:
        if placement != self.program.placement:
            self.program = self.program.placed(placement)
            self.specs = JobSpecs(self.program, self.cut, self.depots, self.specs.options)

    def _run_job(
        self, program: Program, job: JobProgram, spec: JobSpec, limit: _Limit
    ) -> list[Manifest]:
        try:
            blobs = _packed(program, job, spec, limit)
            manifests = []
            for unit in program.units:
                limit.check()
                manifests.append(run_actor(program, spec, unit, blobs.get(unit, ())))
        except AttemptError:
            raise
        except Exception as error:
            raise AttemptError(described(error)) from error
        return manifests


def _packed(
    program: Program, job: JobProgram, spec: JobSpec, limit: _Limit
) -> dict[int, list[Blob]]:
    """What the reading tasks pack for each unit."""
    blobs: dict[int, list[Blob]] = {}
    for index in range(len(spec.splits)):
        limit.check()
        packers = packers_of(program, spec, index)
        feed_splits(program, spec, job.chains, index, packers)
        for unit, tag, rows in packers.parcels():
            blobs.setdefault(unit, []).append((tag, index, rows))
    return blobs


class _Limit:
    """Says between two tasks whether an attempt may go on."""

    def __init__(self, timeout_seconds: float, cancelled: threading.Event) -> None:
        self.timeout_seconds = timeout_seconds
        self.until = time.monotonic() + timeout_seconds
        self.cancelled = cancelled

    def check(self) -> None:
        """Raise AttemptError when the attempt is over."""
        if self.cancelled.is_set():
            raise AttemptError(ActorFailure("E-CANCELLED", "the attempt was cancelled"))
        if time.monotonic() > self.until:
            raise AttemptError(
                ActorFailure(
                    "E-PHASE-TIMEOUT",
                    f"the attempt took longer than {self.timeout_seconds:g} s",
                    "raise topology.microbatch.phase.timeout.seconds, or take fewer records",
                )
            )
