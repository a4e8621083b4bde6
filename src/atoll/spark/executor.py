"""Runs attempts as Spark jobs: implements ``atoll.microbatch.executor.Executor``."""

from __future__ import annotations

import contextlib
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from atoll.dataflow import operators as op
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.objects import Plan
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome
from atoll.pstate.history import Prior
from atoll.spark.failures import job_failure
from atoll.spark.frames import JobFrames, Numbers
from atoll.spark.shipping import ship
from atoll.tasks import exchange
from atoll.tasks.program import ChangesTerminal, JobProgram, JobSpec, Program
from atoll.tasks.splits import cut_blocks, divide, join_splits
from atoll.tasks.staging import staging_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from atoll.dataflow.fragments import Fragments
    from atoll.dataflow.graph import Graph
    from atoll.depot.blocks import BlockRef

__all__ = ["BlockSource", "SparkExecutor"]

_ROWS_PER_READER_LEAST = 5_000


class BlockSource(Protocol):
    """What the executor asks of a depot."""

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """Where the records of a range lie."""


class SparkExecutor:
    """One topology on one Spark session.

    Args:
        session: Whose jobs run the topology.
        program: The topology, bound.
        graph: The topology, as declared.
        cut: Its jobs.
        schemas: The columns after each operator.
        depots: The depots that it reads, by name.
        small_records_max: Up to how many records a job runs without an exchange.
    """

    def __init__(  # noqa: PLR0913  # injected once, by the deployment
        self,
        session: SparkSession,
        program: Program,
        graph: Graph,
        cut: Fragments,
        schemas: Mapping[op.Operator, pa.Schema],
        depots: Mapping[str, BlockSource],
        small_records_max: int,
    ) -> None:
        """Pickle the program once."""
        self.session = session
        self.program = program
        self.graph = graph
        self.operators = {number: operator for operator, number in cut.number.items()}
        self.schemas = schemas
        self.depots = depots
        self.small_records_max = small_records_max
        self.shipped = ship(program, graph)
        self.numbers = Numbers(session)
        self.last_writing = {name: cut.last_writing_job(name) for name in graph.pstates}
        self.roots = {job.index: sorted(_roots(job, cut)) for job in program.jobs}
        self.plain = {job.index: self._is_plain(job) for job in program.jobs}

    def run(self, plan: Plan, epoch: int, version: int, timeout_seconds: float) -> Outcome:
        """Run the jobs one after the other; each needs to know what the earlier ones wrote.

        Raises:
            AttemptError: When a task failed, an executor was lost or the time was over.
        """
        done: list[JobOutcome] = []
        with self._limited(timeout_seconds) as limit:
            for job in self.program.jobs:
                spec = self._spec(plan, epoch, version, job, done)
                if not _has_work(job, spec):
                    done.append(JobOutcome(job.index, []))
                    continue
                outcome = JobOutcome(job.index, limit.collect(self._frame(job, spec)))
                if outcome.failure is not None:
                    raise AttemptError(outcome.failure)
                done.append(outcome)
        return Outcome(done)

    def forget(self, microbatch: int) -> None:
        """Drop the rows staged by attempts at a microbatch."""
        folder = staging_folder(self.program.module, self.program.topology, microbatch)
        shutil.rmtree(self.program.root / folder, ignore_errors=True)
        exchange.clear(self.program, microbatch)

    # Inside ---------------------------------------------------------------------------------------

    def _frame(self, job: JobProgram, spec: JobSpec) -> DataFrame:
        frames = JobFrames(self.numbers, self.shipped, job, spec, self.operators, self.schemas)
        units = len(self.program.units)
        return frames.direct(units) if self._is_direct(job, spec) else frames.exchanged(units)

    def _is_plain(self, job: JobProgram) -> bool:
        """Whether nothing of the user's stands between what the job reads and its state steps.

        Without an exchange every actor would run such a step over all rows, where the user
        expects it once per row.
        """
        return all(
            not chain.steps
            and isinstance(self.operators[chain.origin], op.RootOperator | op.StateOperator)
            for chain in job.chains
        )

    def _is_direct(self, job: JobProgram, spec: JobSpec) -> bool:
        """Whether the job may do without an exchange: few rows, and no step of the user's."""
        rows = _rows(spec)
        return rows == 0 or (self.plain[job.index] and rows <= self.small_records_max)

    def _spec(
        self,
        plan: Plan,
        epoch: int,
        version: int,
        job: JobProgram,
        done: Sequence[JobOutcome],
    ) -> JobSpec:
        blocks, files = self._inputs(plan, job, done)
        rows = sum(ref.take for refs in blocks.values() for ref in refs)
        rows += sum(ref.rows for refs in files.values() for ref in refs)
        tasks = divide(rows, len(self.program.units), _ROWS_PER_READER_LEAST)
        due = {
            name: tuple(vnodes)
            for name, vnodes in plan.checkpoint_vnodes.items()
            if self.last_writing.get(name) == job.index
        }
        priors, prior_vnodes = _priors(done)
        return JobSpec(
            epoch=epoch,
            id=plan.id,
            version=version,
            job=job.index,
            committed=plan.id - 1,
            splits=join_splits(cut_blocks(blocks, tasks), files),
            priors=priors,
            prior_vnodes=prior_vnodes,
            checkpoint_vnodes=due,
        )

    def _inputs(
        self, plan: Plan, job: JobProgram, done: Sequence[JobOutcome]
    ) -> tuple[dict[int, list[BlockRef]], dict[int, list]]:  # type: ignore[type-arg]
        """What the job reads: blocks of depots and staged files, by origin."""
        blocks: dict[int, list[BlockRef]] = {}
        files: dict[int, list] = {}  # type: ignore[type-arg]
        for number in self.roots[job.index]:
            operator = self.operators[number]
            if isinstance(operator, op.Source):
                depot = self.depots[operator.depot.name]
                blocks[number] = [
                    ref
                    for partition, (start, end) in enumerate(plan.ranges[operator.depot.name])
                    if end > start
                    for ref in depot.blocks(partition, start, end)
                ]
            else:
                files[number] = [file for each in done for file in each.staged(number)]
        return blocks, files

    @contextlib.contextmanager
    def _limited(self, timeout_seconds: float) -> Iterator[_Limit]:
        limit = _Limit(self.session, timeout_seconds)
        try:
            yield limit
        finally:
            limit.end()


class _Limit:
    """Collects frames under a tag by which the running job is ended when the time is over."""

    def __init__(self, session: SparkSession, timeout_seconds: float) -> None:
        self.session = session
        self.timeout_seconds = timeout_seconds
        self.expired = False
        self.tag = f"atoll-{uuid.uuid4().hex}"
        session.sparkContext.addJobTag(self.tag)  # a session's own tags end no job here
        self.timer = threading.Timer(timeout_seconds, self._expire)
        self.timer.daemon = True
        self.timer.start()

    def collect(self, frame: DataFrame) -> list[Manifest]:
        """The manifests that the job's actors return.

        Raises:
            AttemptError: When Spark gave up, or the time was over.
        """
        try:
            rows = frame.collect()
        except Exception as error:
            raise AttemptError(self._failure(error)) from error
        manifests = [msgspec.msgpack.decode(bytes(row[0]), type=Manifest) for row in rows]
        return sorted(manifests, key=lambda each: each.unit)

    def end(self) -> None:
        """Stop the clock."""
        self.timer.cancel()
        self.session.sparkContext.removeJobTag(self.tag)

    def _expire(self) -> None:
        self.expired = True
        self.session.sparkContext.cancelJobsWithTag(self.tag)

    def _failure(self, error: Exception) -> ActorFailure:
        if self.expired:
            return ActorFailure(
                "E-PHASE-TIMEOUT",
                f"the attempt took longer than {self.timeout_seconds:g} s",
                "raise topology.microbatch.phase.timeout.seconds, or take fewer records at once",
            )
        return job_failure(error)


def _roots(job: JobProgram, cut: Fragments) -> set[int]:
    """The sources and emitting steps that a job's rows come from."""
    found: set[int] = set()

    def climb(operator: op.Operator) -> None:
        if isinstance(operator, op.RootOperator | op.StateOperator):
            found.add(cut.number[operator])
            return
        for each in operator.inputs:
            climb(each)

    for chain in cut.jobs[job.index].chains:
        climb(chain.origin)
    return found


def _priors(
    done: Sequence[JobOutcome],
) -> tuple[dict[str, tuple[Prior, ...]], dict[str, frozenset[int]]]:
    """What earlier jobs of the attempt wrote, by PState: the winners' files, and the vnodes."""
    priors: dict[str, list[Prior]] = {}
    vnodes: dict[str, set[int]] = {}
    for outcome in done:
        for name in {name for manifest in outcome.manifests for name in manifest.logs}:
            logs = outcome.logs(name)
            files = tuple(log.file for log in logs)
            prior = Prior(outcome.index, frozenset(outcome.tokens), files)
            priors.setdefault(name, []).append(prior)
            vnodes.setdefault(name, set()).update(v for log in logs for v in log.vnodes)
    return (
        {name: tuple(each) for name, each in priors.items()},
        {name: frozenset(each) for name, each in vnodes.items()},
    )


def _has_work(job: JobProgram, spec: JobSpec) -> bool:
    if _rows(spec) or spec.checkpoint_vnodes:
        return True
    return any(
        isinstance(each, ChangesTerminal) and spec.prior_vnodes.get(each.pstate)
        for each in job.terminals
    )


def _rows(spec: JobSpec) -> int:
    return sum(
        sum(ref.take for ref in split.blocks) + sum(file.rows for file in split.files)
        for share in spec.splits
        for split in share
    )
