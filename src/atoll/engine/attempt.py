"""What every executor does alike: says what each job of an attempt reads and follows.

An attempt runs the topology's jobs one after the other, and each job's :class:`JobSpec` depends on
what the earlier ones wrote. How the tasks of a job are run is the executor's own.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from atoll.engine.charts import job_charts, origins_of
from atoll.engine.exchange import blobs as exchange
from atoll.engine.exchange.provenance import first_numbers
from atoll.engine.exchange.staging import staging_folder
from atoll.engine.program import JobProgram, JobSpec, Program, Split
from atoll.engine.splits import cut_blocks, divide, join_splits
from atoll.microbatch.accounts.entries import RowsRead
from atoll.microbatch.accounts.faults import expected_reads, read_faults, refuse
from atoll.microbatch.control.options import Options
from atoll.microbatch.outcome import ActorFailure, JobOutcome, failure_of
from atoll.pstate.store.history import Prior
from atoll.storage.roots import open_store
from atoll.topology.operator import StateOperator
from atoll.topology.sources import Source, Tick

if TYPE_CHECKING:
    from atoll.depot.segments.blocks import BlockRef
    from atoll.microbatch.commits.objects import Plan
    from atoll.pstate.store.history import FileRef
    from atoll.topology.jobs import Cut

_ROWS_PER_READER_LEAST = 5_000


class BlockSource(Protocol):
    """What an executor asks of a depot."""

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """Where the records of a range lie."""


class JobSpecs:
    """The job specs of one topology.

    Args:
        program: The topology, bound.
        cut: Its jobs.
        depots: The depots that it reads, by name.
        options: What the following attempts are run with.
        careful: Whether these attempts find the records that cannot be processed.
    """

    def __init__(
        self,
        program: Program,
        cut: Cut,
        depots: Mapping[str, BlockSource],
        options: Options = Options(),  # noqa: B008  # immutable
        *,
        careful: bool = False,
    ) -> None:
        """What is the same in every microbatch is found once."""
        self.careful = careful
        self.options = options
        self.program = program
        self.depots = depots
        self.operators = {number: operator for operator, number in cut.number.items()}
        # what no step writes any more is written whole by the first one all the same
        self._whole = {name: max(0, cut.last_writing_job(name)) for name in program.pstates}
        self._roots = {job.index: origins_of(job, cut) for job in program.jobs}
        self._charts = job_charts(program, cut)

    def spec(
        self,
        plan: Plan,
        epoch: int,
        version: int,
        job: JobProgram,
        done: Sequence[JobOutcome],
    ) -> JobSpec:
        """What a job of an attempt reads and follows; ``done`` are the attempt's earlier jobs."""
        blocks, files = self._inputs(plan, job, done)
        rows = sum(ref.take for refs in blocks.values() for ref in refs)
        rows += sum(ref.rows for refs in files.values() for ref in refs)
        tasks = divide(rows, len(self.program.placement.source), _ROWS_PER_READER_LEAST)
        due = {
            name: tuple(vnodes)
            for name, vnodes in plan.checkpoint_vnodes.items()
            if self._whole.get(name) == job.index
        }
        priors, prior_vnodes = _priors(done)
        splits = self._with_ticks(
            join_splits(self._fetched(cut_blocks(blocks, tasks, self._firsts(plan))), files),
            plan,
            job,
        )
        self._check_planned(plan, job, done, splits)
        return JobSpec(
            epoch=epoch,
            id=plan.id,
            version=version,
            job=job.index,
            committed=plan.id - 1,
            splits=splits,
            priors=priors,
            prior_vnodes=prior_vnodes,
            checkpoint_vnodes=due,
            timeline=plan.timeline,
            ranges=plan.ranges if self.program.tracked else {},
            flush_entries_max={
                name: self.options.for_pstate(name).flush_entries_max
                for name in self.program.pstates
            },
            combine_rows_max=self.options.combiner_rows_max,
            times=plan.times,
            due={
                pstate: frozenset(plan.due[pstate]) for pstate in job.clocks() if pstate in plan.due
            },
            migrate_vnodes={
                name: tuple(vnodes)
                for name, vnodes in plan.migrate_vnodes.items()
                if job.index == 0 and name in self.program.pstates
            },
            migrated_vnodes=_migrated(done),
            mirrors=plan.mirrors,
            careful=self.careful,
        )

    def _check_planned(
        self,
        plan: Plan,
        job: JobProgram,
        done: Sequence[JobOutcome],
        splits: Sequence[Sequence[Split]],
    ) -> None:
        """Hold that the splits are the plan's ranges and the staged rows, nothing less or more."""
        chart = self._charts[job.index]
        expected = expected_reads(chart, plan.ranges, done, chart.origins)
        planned = _planned(split for share in splits for split in share)
        refuse(job.index, read_faults(chart.origins, expected, planned))

    def forget(self, microbatch: int) -> None:
        """Drop the rows that attempts at a microbatch staged and parked."""
        folder = staging_folder(self.program.module, self.program.topology, microbatch)
        root = self.program.root  # in a bucket a look for nothing is a request all the same
        if isinstance(root, Path) or len(self.program.jobs) > 1 or self.program.folders.scattered:
            open_store(root).delete_all(folder)
        exchange.clear(self.program, microbatch)

    def _fetched(self, shares: tuple[tuple[Split, ...], ...]) -> tuple[tuple[Split, ...], ...]:
        """The splits with how many of their depot's records are handed on at once."""
        most = {
            number: self.options.for_depot(depot).fetch_records_max
            for number, (depot, _) in self.program.depots.items()
        }
        return tuple(
            tuple(replace(split, rows_max=most[split.origin]) for split in share)
            for share in shares
        )

    def _with_ticks(
        self, shares: tuple[tuple[Split, ...], ...], plan: Plan, job: JobProgram
    ) -> tuple[tuple[Split, ...], ...]:
        """The splits, and for the first task the ticks that the plan has."""
        firsts = self._firsts(plan)
        found = []
        for number in self._roots[job.index]:
            operator = self.operators[number]
            if isinstance(operator, Tick):
                tick = operator.tick
                ((start, end),) = plan.ranges[tick.name]
                if end > start:
                    when = (start + 1, (start + 1) * tick.every_ms)
                    found.append(Split(number, first=firsts.get(number, 0), tick=when))
        return ((*shares[0], *found), *shares[1:]) if found else shares

    def _firsts(self, plan: Plan) -> dict[int, int]:
        """For each source whose rows are numbered the number of its first row."""
        begins = first_numbers(plan.ranges)
        tracked = self.program.tracked
        return {n: begins[depot] for n, (depot, _) in self.program.depots.items() if n in tracked}

    def _inputs(
        self, plan: Plan, job: JobProgram, done: Sequence[JobOutcome]
    ) -> tuple[dict[int, list[BlockRef]], dict[int, list[FileRef]]]:
        """What the job reads: blocks of depots and staged files, by origin."""
        blocks: dict[int, list[BlockRef]] = {}
        files: dict[int, list[FileRef]] = {}
        for number in self._roots[job.index]:
            operator = self.operators[number]
            if isinstance(operator, Source):
                depot = self.depots[operator.depot.name]
                blocks[number] = [
                    ref
                    for partition, (start, end) in enumerate(plan.ranges[operator.depot.name])
                    if end > start
                    for ref in depot.blocks(partition, start, end)
                ]
            elif isinstance(operator, StateOperator):
                files[number] = [file for each in done for file in each.staged(number)]
        return blocks, files


def check_reads(spec: JobSpec, splits: Sequence[Split], found: Sequence[RowsRead]) -> None:
    """Hold that all rows of some splits were read, each once.

    For rows that go on into column steps, where nobody after the reader can count them.

    Raises:
        AccountsError: When they were not.
    """
    refuse(spec.job, read_faults({}, _planned(splits), found))


def _planned(splits: Iterable[Split]) -> list[RowsRead]:
    """What splits say is to be read; the blocks of a depot partition in one are one entry."""
    planned: list[RowsRead] = []
    for split in splits:
        if split.tick is not None:
            planned.append(RowsRead(split.origin, "0", split.tick[0] - 1, split.tick[0]))
        planned += [RowsRead(split.origin, file.name, 0, file.rows) for file in split.files]
        parts: dict[int, list[BlockRef]] = {}
        for ref in split.blocks:
            parts.setdefault(ref.partition, []).append(ref)
        for partition, refs in parts.items():
            start = refs[0].offset + refs[0].skip
            rows = sum(ref.take for ref in refs)
            planned.append(RowsRead(split.origin, str(partition), start, start + rows))
    return planned


def has_work(job: JobProgram, spec: JobSpec) -> bool:
    """Whether a job has anything to do: rows to read or make, checkpoints, changes to emit."""
    if rows_of(spec) or spec.checkpoint_vnodes or spec.migrate_vnodes or job.fires or spec.due:
        return True
    return any(each.has_work(spec.prior_vnodes) for each in job.steps)


def rows_of(spec: JobSpec) -> int:
    """How many rows a job reads."""
    return sum(
        sum(ref.take for ref in split.blocks)
        + sum(file.rows for file in split.files)
        + (split.tick is not None)
        for share in spec.splits
        for split in share
    )


def bytes_of(spec: JobSpec) -> int:
    """How many bytes a job reads, as they are stored: of a block in part as its rows in part."""
    blocks = (ref for share in spec.splits for split in share for ref in split.blocks)
    files = (file for share in spec.splits for split in share for file in split.files)
    read = sum(ref.length * ref.take // max(1, ref.rows) for ref in blocks)
    return read + sum(file.size for file in files)


def row_bytes_of(spec: JobSpec) -> float:
    """How many bytes a row takes where it is stored: the most of the means of what a job reads."""
    blocks = ((ref.length, ref.rows) for share in spec.splits for s in share for ref in s.blocks)
    files = ((file.size, file.rows) for share in spec.splits for s in share for file in s.files)
    return max((size / rows for size, rows in (*blocks, *files) if rows), default=0.0)


def described(error: Exception) -> ActorFailure:
    """An error in a task as data, with its trace."""
    trace = "".join(traceback.format_exception(error))
    return msgspec.structs.replace(failure_of(error), trace=trace)


def _migrated(done: Sequence[JobOutcome]) -> dict[str, frozenset[int]]:
    """The vnodes that earlier jobs of the attempt rewrote, by PState."""
    vnodes: dict[str, frozenset[int]] = {}
    for outcome in done:
        for manifest in outcome.manifests:
            for name, each in manifest.migrated.items():
                vnodes[name] = vnodes.get(name, frozenset()) | frozenset(each)
    return vnodes


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
