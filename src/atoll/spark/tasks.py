"""The functions that Spark calls in its Python workers: thin shells around ``atoll.tasks``.

What goes wrong in a task is reported as data, so that the driver gets the error itself and Spark
does not repeat what would fail again. Only a lost process is left to Spark's own retries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from atoll.microbatch.outcome import ActorFailure, Manifest
from atoll.spark.failures import described, telling
from atoll.spark.shipping import Shipped
from atoll.tasks.actor import run_actor
from atoll.tasks.chain import run_steps
from atoll.tasks.exchange import INLINE_BYTES_MAX, Blob, park, unwrap, wrap
from atoll.tasks.packing import Packer
from atoll.tasks.program import ChangesTerminal, JobProgram, JobSpec, Program, TaskChain
from atoll.tasks.reading import read_split

__all__ = [
    "BLOB_SCHEMA",
    "MANIFEST_SCHEMA",
    "ActorTask",
    "DirectTask",
    "PackTask",
    "ReadTask",
    "StepTask",
]

BLOB_SCHEMA = pa.schema([("unit", pa.int32()), ("blob", pa.binary())])
"""As few columns as can be: Spark resolves each of them anew in every microbatch."""

MANIFEST_SCHEMA = pa.schema([("manifest", pa.binary())])

_FAILED = -1
"""The tag of a blob that carries a failure instead of rows."""


@dataclass(frozen=True)
class _Task:
    shipped: Shipped
    spec: JobSpec

    def parts(self) -> tuple[Program, JobProgram]:
        """The program and the job that the task is part of."""
        program = self.shipped.load()
        return program, program.jobs[self.spec.job]


@dataclass(frozen=True)
class ReadTask(_Task):
    """Reads one origin's splits as rows, for the column steps after it."""

    origin: int
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``batches`` hold the indices of the splits that this task reads."""
        with telling():
            program, _ = self.parts()
            for index in _indices(batches):
                for split in self.spec.splits[index]:
                    if split.origin == self.origin:
                        yield from read_split(program, split)


@dataclass(frozen=True)
class StepTask(_Task):
    """Runs one Python step over rows that Spark holds."""

    chain: TaskChain

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, rows out."""
        with telling():
            yield from run_steps(batches, self.chain.origin_schema, self.chain.steps)


@dataclass(frozen=True)
class PackTask(_Task):
    """Runs the chains of one origin over its rows and packs what reaches their terminals.

    ``reads`` says whether the rows are read from splits or come from column steps.
    """

    origins: frozenset[int]
    reads: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs for the actors, or one failure for all of them."""
        sequence = TaskContext.get().partitionId()  # type: ignore[union-attr]  # in a task
        try:
            program, job = self.parts()
            chains = [chain for chain in job.chains if chain.origin in self.origins]
            packers = _packers(program, job)
            if self.reads:
                for index in _indices(batches):
                    _run_reading(program, self.spec, chains, index, packers)
            else:
                _run_over(list(batches), chains, packers)
            for tag, packer in packers.items():
                for unit, rows in packer.finish():
                    parked = rows.size > INLINE_BYTES_MAX
                    payload = park(program, self.spec.id, rows) if parked else rows
                    yield _placed(unit, wrap(tag, sequence, payload))
        except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
            yield _placed(0, wrap(_FAILED, sequence, pa.py_buffer(_failure(error))))


@dataclass(frozen=True)
class ActorTask(_Task):
    """Runs the actor of the unit that is this task's partition."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs in, one manifest out."""
        unit = TaskContext.get().partitionId()  # type: ignore[union-attr]  # in a task
        blobs: list[Blob] = []
        for batch in batches:
            blobs.extend(unwrap(blob.as_buffer()) for blob in batch.column(1))
        yield _manifest(_acted(self.shipped, self.spec, unit, blobs))


@dataclass(frozen=True)
class DirectTask(_Task):
    """An actor without an exchange: it reads all splits and keeps the rows of its own vnodes.

    For small microbatches one stage costs less than moving a few rows through two.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The unit is this task's number."""
        for unit in _indices(batches):
            try:
                program, job = self.parts()
                packers = _packers(program, job)
                for index in range(len(self.spec.splits)):
                    _run_reading(program, self.spec, job.chains, index, packers)
                blobs: list[Blob] = [
                    (tag, 0, rows)
                    for tag, packer in packers.items()
                    for _, rows in packer.finish(only=unit)
                ]
            except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
                blobs = [(_FAILED, 0, pa.py_buffer(_failure(error)))]
            yield _manifest(_acted(self.shipped, self.spec, unit, blobs))


def _acted(shipped: Shipped, spec: JobSpec, unit: int, blobs: list[Blob]) -> Manifest:
    for tag, _, payload in blobs:
        if tag == _FAILED and not isinstance(payload, str):
            failure = msgspec.msgpack.decode(payload, type=ActorFailure)
            return Manifest("", unit, failure=failure)
    try:
        return run_actor(shipped.load(), spec, unit, blobs)
    except Exception as error:  # noqa: BLE001  # becomes the attempt's failure
        return Manifest("", unit, failure=described(error))


def _packers(program: Program, job: JobProgram) -> dict[int, Packer]:
    packers = {}
    for terminal in job.terminals:
        if isinstance(terminal, ChangesTerminal):
            continue
        name = getattr(terminal, "pstate", None) or terminal.states[0]  # type: ignore[attr-defined]
        packers[terminal.tag] = Packer(terminal, program.mappings[name])
    return packers


def _run_reading(
    program: Program,
    spec: JobSpec,
    chains: list[TaskChain] | tuple[TaskChain, ...],
    index: int,
    packers: dict[int, Packer],
) -> None:
    for split in spec.splits[index]:
        fed = [chain for chain in chains if chain.origin == split.origin]
        if fed:
            _run_over(list(read_split(program, split)), fed, packers)


def _run_over(
    batches: list[pa.RecordBatch], chains: list[TaskChain], packers: dict[int, Packer]
) -> None:
    for chain in chains:
        for batch in run_steps(iter(batches), chain.origin_schema, chain.steps):
            for tag in chain.terminals:
                packers[tag].add(batch)


def _indices(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _placed(unit: int, blob: bytes) -> pa.RecordBatch:
    columns = [pa.array([unit], pa.int32()), pa.array([blob], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=BLOB_SCHEMA)


def _manifest(manifest: Manifest) -> pa.RecordBatch:
    data = pa.array([msgspec.msgpack.encode(manifest)], pa.binary())
    return pa.RecordBatch.from_arrays([data], schema=MANIFEST_SCHEMA)


def _failure(error: Exception) -> bytes:
    return msgspec.msgpack.encode(described(error))
