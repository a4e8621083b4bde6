"""Runs attempts in the calling process: no Spark, no JVM, one task after the other.

Each runs in a thread that is watched and can be left behind (:mod:`atoll.engine.runners`).

For tests, small modules and tools. It runs the very functions that Spark's tasks run: steps,
packers and actors, one actor per parallel unit. What needs Spark (column steps) it cannot run;
:func:`atoll.steps.columns.schemas.python_only` refuses such a topology when it is deployed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from atoll.beats import present
from atoll.engine.actor import run_actor
from atoll.engine.attempt import BlockSource, JobSpecs, described, has_work, rows_of
from atoll.engine.beside import Beside
from atoll.engine.exchange.ahead import Packed, ReadAhead, Shares, is_foreseeable, share_ahead
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
        self._reading = Attempts()
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
        program, specs = self.program, self.specs
        limit = float(specs.options.phase_timeout_seconds)

        def work() -> None:
            stragglers = self._stragglers(specs)
            self._reading.run(lambda: self._read_ahead(program, specs, plan), limit, stragglers)

        self._beside.begin(work)

    def end_reading_ahead(self) -> None:
        """Wait for that thread, which is watched and limited as an attempt is."""
        self._beside.end()

    def cancel(self) -> None:
        """End what runs at the next beat of its task. Safe from any thread."""
        self._attempts.cancel()
        self._reading.cancel()

    def forget(self, microbatch: int) -> None:
        """Drop the rows staged by attempts at a microbatch."""
        self.specs.forget(microbatch)

    def _run(
        self, specs: JobSpecs, attempt: tuple[Plan, int, int], timeout_seconds: float
    ) -> Outcome:
        stragglers = self._stragglers(specs)
        return self._attempts.run(
            lambda: _outcome(specs, attempt, self._ahead), timeout_seconds, stragglers
        )

    def _stragglers(self, specs: JobSpecs) -> Stragglers:
        limit = float(specs.options.silence_seconds)
        return Stragglers(specs.program.topology, limit, self._fragments)

    def _begin(self, placement: Placement) -> None:
        self._beside.end()
        self._place(placement)

    def _read_ahead(self, program: Program, specs: JobSpecs, plan: Plan) -> None:
        spec = specs.spec(plan, plan.epoch, 0, program.jobs[0], [])
        if not rows_of(spec) or not is_foreseeable(program, spec):
            return
        shares = {}
        for index in range(len(spec.splits)):
            present().part(READER, index)
            shares[index] = share_ahead(program, spec, index)
        self._ahead.keep(program, spec, shares)

    def _place(self, placement: Placement) -> None:
        if placement != self.program.placement:
            self.program = self.program.placed(placement)
            self.specs = JobSpecs(self.program, self.cut, self.depots, self.specs.options)


def _outcome(specs: JobSpecs, attempt: tuple[Plan, int, int], ahead: ReadAhead) -> Outcome:
    """Run the jobs of an attempt, each of which depends on what the earlier ones wrote."""
    program = specs.program
    done: list[JobOutcome] = []
    for job in program.jobs:
        present().part("attempt", attempt[2])
        spec = specs.spec(*attempt, job, done)
        work = has_work(job, spec)
        kept = ahead.take(program, spec) if job.index == 0 else {}
        manifests = _manifests(program, job, spec, kept) if work else []
        way = Way.INLINE if work else None
        done.append(JobOutcome(job.index, manifests, way, bool(kept)))
    present().beat()
    return Outcome(done)


def _manifests(program: Program, job: JobProgram, spec: JobSpec, kept: Shares) -> list[Manifest]:
    try:
        blobs = _packed(program, job, spec, kept)
        return [run_actor(program, spec, unit, blobs.get(unit, ())) for unit in program.units]
    except Exception as error:
        raise AttemptError(described(error)) from error


def _packed(
    program: Program, job: JobProgram, spec: JobSpec, kept: Shares
) -> dict[int, list[Blob]]:
    """What the reading tasks pack for each unit, or have packed."""
    blobs: dict[int, list[Blob]] = {}
    for index in range(len(spec.splits)):
        present().part(READER, index)
        if index in kept:
            parcels: Iterable[Packed] = kept[index].parcels(spec)
        else:
            packers = packers_of(program, spec, index)
            feed_splits(program, spec, job.chains, index, packers)
            parcels = packers.parcels()
        for unit, tag, rows in parcels:
            blobs.setdefault(unit, []).append((tag, index, rows))
    return blobs
