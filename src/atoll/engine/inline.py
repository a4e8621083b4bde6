"""Runs attempts in the calling process: no Spark, no JVM, one task after the other.

Each runs in a thread that is watched and can be left behind (:mod:`atoll.engine.runners`).

For tests, small modules and tools. It runs the very functions that Spark's tasks run: steps,
packers and actors, one actor per parallel unit. What needs Spark (column steps) it cannot run;
:func:`atoll.steps.columns.schemas.python_only` refuses such a topology when it is deployed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atoll.beats import present
from atoll.engine.actor import run_actor
from atoll.engine.attempt import BlockSource, JobSpecs, described, has_work
from atoll.engine.exchange.blobs import Blob
from atoll.engine.exchange.feeding import READER, feed_splits, packers_of
from atoll.engine.program import JobProgram, JobSpec, Program
from atoll.engine.runners import Attempts
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import JobOutcome, Manifest, Outcome, Way
from atoll.microbatch.stragglers import Stragglers
from atoll.topology.fragments import fragment_names

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Commit, Plan
    from atoll.microbatch.control.options import Options
    from atoll.placement.placement import Placement
    from atoll.topology.jobs import Cut


class InlineExecutor:
    """One topology, run in this process.

    :meth:`cancel`, the phase timeout and the limit of silence end an attempt at the next beat of
    its task; one that does not come to it in half a second is left behind.

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
        self._fragments = {
            cut.number[step]: name for step, name in fragment_names(cut.number).items()
        }
        self._attempts = Attempts()

    def run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run the jobs one after the other.

        Raises:
            AttemptError: When a task failed, the attempt was cancelled or the time was over.
        """
        self._place(placement)
        return self._run(self.specs, (plan, epoch, version), timeout_seconds)

    def run_carefully(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """As :meth:`run`, and find the records that cannot be processed.

        Raises:
            AttemptError: As :meth:`run`.
        """
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
        """End the running attempt at the next beat of its task. Safe from any thread."""
        self._attempts.cancel()

    def forget(self, microbatch: int) -> None:
        """Drop the rows staged by attempts at a microbatch."""
        self.specs.forget(microbatch)

    def _run(
        self, specs: JobSpecs, attempt: tuple[Plan, int, int], timeout_seconds: float
    ) -> Outcome:
        limit = float(specs.options.silence_seconds)
        stragglers = Stragglers(specs.program.topology, limit, self._fragments)
        return self._attempts.run(lambda: _outcome(specs, attempt), timeout_seconds, stragglers)

    def _place(self, placement: Placement) -> None:
        if placement != self.program.placement:
            self.program = self.program.placed(placement)
            self.specs = JobSpecs(self.program, self.cut, self.depots, self.specs.options)


def _outcome(specs: JobSpecs, attempt: tuple[Plan, int, int]) -> Outcome:
    """Run the jobs of an attempt, each of which depends on what the earlier ones wrote."""
    program = specs.program
    done: list[JobOutcome] = []
    for job in program.jobs:
        present().part("attempt", attempt[2])
        spec = specs.spec(*attempt, job, done)
        work = has_work(job, spec)
        manifests = _manifests(program, job, spec) if work else []
        done.append(JobOutcome(job.index, manifests, Way.INLINE if work else None))
    present().beat()
    return Outcome(done)


def _manifests(program: Program, job: JobProgram, spec: JobSpec) -> list[Manifest]:
    try:
        blobs = _packed(program, job, spec)
        return [run_actor(program, spec, unit, blobs.get(unit, ())) for unit in program.units]
    except Exception as error:
        raise AttemptError(described(error)) from error


def _packed(program: Program, job: JobProgram, spec: JobSpec) -> dict[int, list[Blob]]:
    """What the reading tasks pack for each unit."""
    blobs: dict[int, list[Blob]] = {}
    for index in range(len(spec.splits)):
        present().part(READER, index)
        packers = packers_of(program, spec, index)
        feed_splits(program, spec, job.chains, index, packers)
        for unit, tag, rows in packers.parcels():
            blobs.setdefault(unit, []).append((tag, index, rows))
    return blobs
