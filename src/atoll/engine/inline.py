"""Runs attempts in the calling process: no Spark, no JVM, one task after the other.

For tests, small modules and tools. It runs the very functions that Spark's tasks run: steps,
packers and actors, one actor per parallel unit. What needs Spark (column steps) it cannot run;
:func:`atoll.steps.columns.schemas.python_only` refuses such a topology when it is deployed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from atoll.engine.actor import run_actor
from atoll.engine.attempt import BlockSource, JobSpecs, described, has_work, rows_of
from atoll.engine.beside import Beside
from atoll.engine.exchange.ahead import Packed, ReadAhead, Shares, is_foreseeable, share_ahead
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
        self._ahead = ReadAhead()
        self._beside = Beside(f"atoll-ahead-{program.topology}")

    def run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run the jobs one after the other.

        Raises:
            AttemptError: When a task failed, the attempt was cancelled or the time was over.
        """
        self._begin(placement)
        return self._run(self.specs, (plan, epoch, version), timeout_seconds)

    def run_carefully(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """As :meth:`run`, and find the records that cannot be processed.

        Raises:
            AttemptError: As :meth:`run`.
        """
        self._begin(placement)
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

    def read_ahead(self, plan: Plan) -> None:
        """Read and pack in another thread, while this one commits."""
        limit = _Limit(float(self.specs.options.phase_timeout_seconds), self._cancelled)
        self._beside.begin(lambda: self._read_ahead(plan, limit))

    def end_reading_ahead(self) -> None:
        """Wait for that thread."""
        self._beside.end()

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
            kept = self._ahead.take(program, spec) if job.index == 0 else {}
            manifests = self._run_job(program, job, spec, limit, kept) if work else []
            way = Way.INLINE if work else None
            done.append(JobOutcome(job.index, manifests, way, bool(kept)))
        return Outcome(done)

    def _begin(self, placement: Placement) -> None:
        self._beside.end()
        self._cancelled.clear()
        self._place(placement)

    def _read_ahead(self, plan: Plan, limit: _Limit) -> None:
        program, specs, shares = self.program, self.specs, {}
        spec = specs.spec(plan, plan.epoch, 0, program.jobs[0], [])
        if not rows_of(spec) or not is_foreseeable(program, spec):
            return
        for index in range(len(spec.splits)):
            limit.check()
            shares[index] = share_ahead(program, spec, index)
        self._ahead.keep(program, spec, shares)

    def _place(self, placement: Placement) -> None:
        if placement != self.program.placement:
            self.program = self.program.placed(placement)
            self.specs = JobSpecs(self.program, self.cut, self.depots, self.specs.options)

    def _run_job(
        self, program: Program, job: JobProgram, spec: JobSpec, limit: _Limit, kept: Shares
    ) -> list[Manifest]:
        try:
            blobs = _packed(program, job, spec, limit, kept)
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
    program: Program, job: JobProgram, spec: JobSpec, limit: _Limit, kept: Shares
) -> dict[int, list[Blob]]:
    """What the reading tasks pack for each unit, or have packed."""
    blobs: dict[int, list[Blob]] = {}
    for index in range(len(spec.splits)):
        limit.check()
        if index in kept:
            parcels: Iterable[Packed] = kept[index].parcels(spec)
        else:
            packers = packers_of(program, spec, index)
            feed_splits(program, spec, job.chains, index, packers)
            parcels = packers.parcels()
        for unit, tag, rows in parcels:
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
