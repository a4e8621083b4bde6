"""The functions that Spark calls in its Python workers: thin shells around ``atoll.engine``.

What goes wrong in a task is reported as data, so that the driver gets the error itself and Spark
does not repeat what would fail again. Only a lost process is left to Spark's own retries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from atoll.engine.actor import ACTOR, run_actor
from atoll.engine.attempt import check_reads, described
from atoll.engine.charts import step_charts
from atoll.engine.exchange.blobs import (
    Blob,
    failure_file,
    failure_in,
    unwrap,
    wrapped,
    wrapped_failure,
)
from atoll.engine.exchange.careful import Refusing
from atoll.engine.exchange.feeding import (
    READER,
    feed,
    feed_splits,
    packed_alone,
    packers_of,
    run_steps,
)
from atoll.engine.exchange.provenance import locating
from atoll.engine.exchange.reading import read_split
from atoll.engine.exchange.rejects import UNHEARD, RejectPacker
from atoll.engine.exchange.tally import ChainCounts
from atoll.engine.exchange.waybills import WAYBILLS, waybill_of_rejects
from atoll.engine.program import JobProgram, JobSpec, Program, TaskChain
from atoll.engine.warming import warm_up
from atoll.microbatch.accounts.entries import PART_TASKS, REJECTS, STEP_TASKS, RowsRead
from atoll.microbatch.accounts.faults import chain_faults, refuse
from atoll.microbatch.outcome import Manifest
from atoll.spark.frames.guarding import GUARD
from atoll.spark.jobs.beating import beating
from atoll.spark.jobs.failures import telling
from atoll.spark.jobs.handing import handed_spec
from atoll.spark.shipping import Shipped
from atoll.steps.columns.guards import Guarded
from atoll.topology.rows import ORIGIN_FIELD, conformed, rows_of
from atoll.topology.usercode import Rejects

BLOB_SCHEMA = pa.schema([("actor", pa.int32()), ("blob", pa.binary())])
"""As few columns as can be: Spark resolves each of them anew in every microbatch."""

TOLD = "__atoll_told"
"""The hidden column of what a step tells beside its rows."""

TOLD_FIELD = pa.field(TOLD, pa.binary())

MANIFEST_SCHEMA = pa.schema([("manifest", pa.binary())])

_NO_UNIT = -1
"""The unit of a manifest that carries nothing but a failure."""


@dataclass(frozen=True)
class _Task:
    """A task of any attempt: what it is to do this time comes beside it, with its Spark job."""

    shipped: Shipped

    def parts(self) -> tuple[Program, JobSpec, JobProgram]:
        """The program, what this attempt does, and the job that the task is part of."""
        program, spec = self.shipped.load(), handed_spec()
        return program, spec, program.jobs[spec.job]


@dataclass(frozen=True)
class ReadTask(_Task):
    """Reads one origin's splits as rows, for the column steps after it.

    Columns that are not ``used`` are nulls; None says that all are.
    """

    origin: int
    used: frozenset[str] | None = None

    @property
    def __name__(self) -> str:
        """How Spark's plans call it."""
        return reader_name(self.origin)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``batches`` hold the indices of the splits that this task reads."""
        program, spec, _ = self.parts()
        number = _spark_partition()
        with (
            telling(failure_file(program, spec)),
            beating(program, spec, READER, number) as task,
        ):
            for index in _indices(batches):
                mine = [each for each in spec.splits[index] if each.origin == self.origin]
                reads: list[RowsRead] = []
                for split in mine:
                    rows = map(self._rows, read_split(program, split, reads.append))
                    yield from task.handed(rows)
                check_reads(spec, mine, reads)

    def pruned(self, schema: pa.Schema) -> pa.Schema:
        """The schema of rows of which only some columns are used."""
        used = self.used
        return pa.schema(
            [
                field if used is None or field.name in used else field.with_nullable(nullable=True)
                for field in schema
            ]
        )

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        used = self.used
        if used is None:
            return batch
        columns = [
            column if field.name in used else pa.nulls(len(batch), field.type)
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.pruned(batch.schema))


@dataclass(frozen=True)
class StepTask(_Task):
    """Runs one Python step over rows that Spark holds.

    Its frame has a further column ``TOLD`` when it ``reports`` rejected rows: they follow the
    good rows, as blobs in rows that hold nothing else.
    """

    chain: TaskChain
    tracked: bool = False
    reports: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, rows out."""
        program, spec, _ = self.parts()
        kind = f"task of step {self.chain.numbers[-1]}"
        with (
            telling(failure_file(program, spec)),
            locating(program, spec),
            beating(program, spec, kind, _spark_partition()) as task,
        ):
            yield from task.handed(self._made(task.awaited(batches), program, spec))

    def _made(
        self, batches: Iterator[pa.RecordBatch], program: Program, spec: JobSpec
    ) -> Iterator[pa.RecordBatch]:
        schema = self.chain.origin_schema
        steps = [step.at(spec.times) for step in self.chain.steps]
        if not self.reports:
            heard = None if program.dead_letter is None else UNHEARD
            for batch in self._ran(batches, heard, spec):
                yield conformed(batch, tracked=self.tracked)
            return
        packer = RejectPacker(program, spec)
        columns = told_schema(steps[-1].schema((schema,)), tracked=self.tracked)
        for batch in self._ran(batches, packer, spec):
            rows = conformed(batch, tracked=self.tracked)
            nothing = pa.nulls(len(rows), pa.binary())
            yield pa.RecordBatch.from_arrays([*rows.columns, nothing], schema=columns)
        task = _beside(*self.chain.numbers)
        blobs = [rows for _, rows in packer.finish()]
        for rows in blobs:
            yield _told(columns, wrapped(program, spec, (REJECTS, task), rows))
        waybill = waybill_of_rejects(spec, packer.unit, task, blobs, packer.counts.taken)
        yield _told(columns, wrapped(program, spec, (WAYBILLS, task), waybill))

    def _ran(
        self, batches: Iterator[pa.RecordBatch], rejects: Rejects | None, spec: JobSpec
    ) -> Iterator[pa.RecordBatch]:
        """The rows after the steps, which must make of each what they may make of it."""
        steps = [step.at(spec.times) for step in self.chain.steps]
        counts = ChainCounts(len(steps))
        yield from run_steps(batches, self.chain.origin_schema, steps, rejects, counts=counts)
        charts = step_charts(self.chain)
        refuse(spec.job, chain_faults(charts[0].name, charts, counts.rows, counts.aside))


@dataclass(frozen=True)
class RefuseTask(_Task):
    """Sets aside the rows on which an expression of a column step fails."""

    guarded: Guarded
    step: int
    at: int
    """Which of the step's inputs it is."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with their guards in, blobs of rejected rows out."""
        program, spec, _ = self.parts()
        with telling(failure_file(program, spec)):
            packer = RejectPacker(program, spec)
            refusing = Refusing(self.guarded, packer)
            for batch in batches:
                refused = pa.Table.from_batches([batch]).drop_columns([GUARD])
                seen = rows_of(batch.select(self.guarded.columns))
                guards = batch.column(GUARD).to_pylist()
                for position, (place, row) in enumerate(zip(guards, seen, strict=True)):
                    refusing.refuse(refused, position, self.guarded.error(place, row))
            task = _beside(self.step) + self.at * (STEP_TASKS // 2)
            blobs = [rows for _, rows in packer.finish()]
            for rows in blobs:
                yield _placed(0, wrapped(program, spec, (REJECTS, task), rows))
            waybill = waybill_of_rejects(spec, packer.unit, task, blobs, packer.counts.taken)
            yield _placed(0, wrapped(program, spec, (WAYBILLS, task), waybill))


def _beside(step: int) -> int:
    """A number for a task of a step, that no packing task has."""
    return STEP_TASKS * (1 + step) + _spark_partition()


def _spark_partition() -> int:
    """Which of its stage's tasks the calling one is."""
    return TaskContext.get().partitionId()  # type: ignore[union-attr]  # in a task


@dataclass(frozen=True)
class PackTask(_Task):
    """Runs the chains of one origin over its rows and packs what reaches their ends.

    ``part`` is 0 where the rows are read from splits; else they come from a column step, and it
    keeps the tasks' numbers apart: Spark may run those of several steps as one.
    """

    origins: frozenset[int]
    part: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs for the actors, or one failure for all of them."""
        sequence = _spark_partition() + self.part * PART_TASKS
        try:
            program, spec, job = self.parts()
            actors = {unit: number for number, unit in enumerate(program.units)}
            chains = [chain for chain in job.chains if chain.origin in self.origins]
            packers = packers_of(program, spec, sequence)
            with beating(program, spec, READER, sequence) as task:
                if not self.part:
                    for index in _indices(batches):
                        feed_splits(program, spec, chains, index, packers)
                else:
                    feed(program, spec, list(task.awaited(batches)), chains, packers)
                for unit, tag, rows in task.handed(packers.parcels()):
                    blob = wrapped(program, spec, (tag, sequence), rows)
                    yield _placed(actors[unit], blob)
        except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
            yield _placed(0, wrapped_failure(sequence, described(error)))


@dataclass(frozen=True)
class ActorTask(_Task):
    """Runs one actor: Spark's partition is the actor's number."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs in, one manifest out."""
        actor = _spark_partition()
        blobs: list[Blob] = []
        for batch in batches:
            blobs.extend(unwrap(blob.as_buffer()) for blob in batch.column(1))
        yield _manifest(_acted(self.shipped, actor, blobs))


@dataclass(frozen=True)
class HandedTask(_Task):
    """Runs one actor on the blobs that the driver hands on: most of them name a file."""

    blobs: dict[int, list[bytes]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The actor's number is this task's number."""
        for actor in _indices(batches):
            blobs = [unwrap(pa.py_buffer(blob)) for blob in self.blobs.get(actor, ())]
            yield _manifest(_acted(self.shipped, actor, blobs))


@dataclass(frozen=True)
class DirectTask(_Task):
    """An actor without an exchange: it reads all splits and keeps the rows of its own vnodes.

    For small microbatches one stage costs less than moving a few rows through two.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The actor's number is this task's number."""
        for actor in _indices(batches):
            try:
                program, spec, _ = self.parts()
                unit = program.units[actor]
                with beating(program, spec, ACTOR, unit):
                    blobs = packed_alone(program, spec, [unit])[unit]
            except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
                yield _manifest(Manifest("", _NO_UNIT, failure=described(error)))
            else:
                yield _manifest(_acted(self.shipped, actor, blobs))


@dataclass(frozen=True)
class WarmTask:
    """Gets a worker ready for an actor; the task's number is the actor's."""

    shipped: Shipped
    commit: int
    timeline: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns nothing."""
        program = self.shipped.load()
        for actor in _indices(batches):
            warm_up(program, program.units[actor], self.commit, self.timeline)
        yield from ()


def _acted(shipped: Shipped, actor: int, blobs: list[Blob]) -> Manifest:
    failure = failure_in(blobs)
    if failure is not None:
        return Manifest("", _NO_UNIT, failure=failure)
    try:
        program, spec = shipped.load(), handed_spec()
        unit = program.units[actor]
        with beating(program, spec, ACTOR, unit):
            return run_actor(program, spec, unit, blobs)
    except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
        return Manifest("", _NO_UNIT, failure=described(error))


def _indices(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _placed(actor: int, blob: bytes) -> pa.RecordBatch:
    columns = [pa.array([actor], pa.int32()), pa.array([blob], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=BLOB_SCHEMA)


def reader_name(origin: int) -> str:
    """How Spark's plans call what reads the rows of an operator."""
    return f"read {origin}"


def told_schema(schema: pa.Schema, *, tracked: bool) -> pa.Schema:
    """The columns of a step's frame that may also hold what the step tells."""
    fields = [field.with_nullable(nullable=True) for field in schema]
    return pa.schema([*fields, *([ORIGIN_FIELD] if tracked else []), TOLD_FIELD])


def _told(schema: pa.Schema, blob: bytes) -> pa.RecordBatch:
    """One row that holds nothing but a blob."""
    columns = [pa.nulls(1, field.type) for field in schema][:-1]
    return pa.RecordBatch.from_arrays([*columns, pa.array([blob], pa.binary())], schema=schema)


def _manifest(manifest: Manifest) -> pa.RecordBatch:
    data = pa.array([msgspec.msgpack.encode(manifest)], pa.binary())
    return pa.RecordBatch.from_arrays([data], schema=MANIFEST_SCHEMA)
