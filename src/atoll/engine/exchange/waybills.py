"""What goes from a packing task to the actors: blobs, and for each actor a waybill for them.

A waybill names every blob by size and checksum and says how many rows they hold. So an actor
knows what has to come, and refuses to run on anything else: on fewer blobs or more, on those of
another attempt, another unit or another task, on none at all. One actor is also told all that the
task counted.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from atoll.beats import present
from atoll.engine.exchange.blobs import Blob, fetch
from atoll.engine.exchange.provenance import locating
from atoll.engine.exchange.tally import ChainCounts, PackCounts
from atoll.microbatch.accounts.entries import (
    REJECTS,
    STEP_TASKS,
    Parcel,
    RowsRead,
    TaskAccounts,
    Waybill,
)
from atoll.microbatch.accounts.faults import delivery_faults, refuse

if TYPE_CHECKING:
    from atoll.engine.exchange.rejects import RejectPacker
    from atoll.engine.program import JobProgram, JobSpec, Program, TaskChain
    from atoll.engine.step import Packer

WAYBILLS = -3
"""The tag of a blob that is a waybill."""


class Packers(dict[int, "Packer | RejectPacker"]):
    """The packers of one task by tag, and what the task counts.

    Args:
        program: The topology.
        spec: The job.
        sequence: The task's number.
    """

    def __init__(self, program: Program, spec: JobSpec, sequence: int) -> None:
        """No packers yet."""
        super().__init__()
        self.program = program
        self.spec = spec
        self.sequence = sequence
        job = program.jobs[spec.job]
        self._numbers = {(e.origin, e.numbers): n for n, e in enumerate(job.chains)}
        self._reads: list[RowsRead] = []
        self._chains: dict[int, ChainCounts] = {}
        self._parcels: dict[int, list[Parcel]] = defaultdict(list)

    def read(self, rows: RowsRead) -> None:
        """Some rows were read; neighbours become one entry."""
        last = self._reads[-1] if self._reads else None
        if last is not None and (last.origin, last.part, last.end) == (
            rows.origin,
            rows.part,
            rows.start,
        ):
            self._reads[-1] = msgspec.structs.replace(last, end=rows.end)
        else:
            self._reads.append(rows)

    def counts(self, chain: TaskChain) -> ChainCounts:
        """Where the rows of a chain are counted."""
        number = self._numbers[chain.origin, chain.numbers]
        return self._chains.setdefault(number, ChainCounts(len(chain.steps)))

    def parcels(self, only: Collection[int] | None = None) -> Iterator[tuple[int, int, pa.Buffer]]:
        """Unit, tag and rows of every blob, then the waybills.

        Args:
            only: The units whose actors pack for themselves; else they are for all units.
        """
        yield from self.packed(only)
        yield from self.waybills(self.spec, only)

    def packed(self, only: Collection[int] | None = None) -> Iterator[tuple[int, int, pa.Buffer]]:
        """Unit, tag and rows of every blob; to be called once."""
        with locating(self.program, self.spec):
            for tag, packer in self.items():
                present().begin("packing rows")
                for unit, rows in packer.finish(only):
                    self._parcels[unit].append(_parcel(self.sequence, tag, rows))
                    yield unit, tag, rows

    def waybills(
        self, spec: JobSpec, only: Collection[int] | None = None
    ) -> Iterator[tuple[int, int, pa.Buffer]]:
        """The waybills for what was packed, for the actors of an attempt."""
        parcels, alone = self._parcels, only is not None
        units = self.program.units if only is None else tuple(only)
        teller = units[self.sequence % len(units)]
        told, spent = self._told(), present().spent_ms()
        for unit in units:
            waybill = Waybill(
                attempt_of(spec),
                self.sequence,
                alone,
                unit,
                parcels[unit],
                {tag: p.counts.packed[unit] for tag, p in self.items() if p.counts.packed[unit]},
                told if alone or unit == teller else None,
                spent if unit == teller else {},
            )
            yield unit, WAYBILLS, pa.py_buffer(msgspec.msgpack.encode(waybill))

    def _told(self) -> TaskAccounts:
        chains = [counts.entry(number) for number, counts in sorted(self._chains.items())]
        packed = [packer.counts.entry(tag) for tag, packer in self.items()]
        return TaskAccounts(
            self.sequence,
            self._reads,
            chains,
            [each for each in packed if each.taken],
        )


def attempt_of(spec: JobSpec) -> tuple[int, int, int, int]:
    """Which job of which attempt it is."""
    return spec.epoch, spec.id, spec.version, spec.job


def packing_tasks(job: JobProgram, spec: JobSpec) -> dict[int, int]:
    """For each part of a job how many tasks pack; 0 where only Spark knows.

    The first part reads; each column step from which rows come is a part of its own.
    """
    reads = any(chain.reads for chain in job.chains) or not job.chains
    known = {0: len(spec.splits)} if reads else {}
    return known | {part: 0 for part, _ in enumerate(column_origins(job), start=1)}


def column_origins(job: JobProgram) -> list[int]:
    """The column steps from which rows come, in the order of the parts."""
    return sorted({chain.origin for chain in job.chains if not chain.reads})


def waybill_of_rejects(
    spec: JobSpec, unit: int, task: int, blobs: Iterable[pa.Buffer], rows: int
) -> pa.Buffer:
    """The waybill of a task that reports rejected rows alone, for the only actor that gets any."""
    parcels = [_parcel(task, REJECTS, blob) for blob in blobs]
    counts = PackCounts(taken=rows)
    counts.all_for(unit, rows)
    told = TaskAccounts(task, packed=[counts.entry(REJECTS)])
    by_tag = {REJECTS: rows}
    waybill = Waybill(attempt_of(spec), task, False, unit, parcels, by_tag, told)  # noqa: FBT003
    return pa.py_buffer(msgspec.msgpack.encode(waybill))


@dataclass(frozen=True)
class Delivery:
    """What came for an actor, all there and nothing else.

    Attributes:
        blobs: The rows; those of parked blobs were fetched.
        alone: Whether the actor packed them itself.
        tasks: The packing tasks.
        told: What they counted, as far as they told this actor.
        rows: How many rows they say that the blobs hold, by tag.
        step_ms: How long they were at each step, as far as they told this actor.
    """

    blobs: list[Blob]
    alone: bool
    tasks: list[int]
    told: list[TaskAccounts]
    rows: Counter[int]
    step_ms: Counter[str]


_WAYBILL = msgspec.msgpack.Decoder(Waybill)


def delivered(program: Program, spec: JobSpec, unit: int, blobs: Iterable[Blob]) -> Delivery:
    """Hold what came for an actor against the waybills.

    Raises:
        AccountsError: When something is missing, or came that is not for it.
        StorageError: When the file of a parked blob is gone.
    """
    waybills: list[Waybill] = []
    found: list[Parcel] = []
    rows: list[Blob] = []
    for tag, sequence, payload in blobs:
        data = fetch(payload) if isinstance(payload, str) else payload
        if tag == WAYBILLS:
            waybills.append(_WAYBILL.decode(data))
        else:
            found.append(_parcel(sequence, tag, data))
            rows.append((tag, sequence, data))
    job = program.jobs[spec.job]
    names = {each.tag: each.label for each in job.steps}
    tasks = packing_tasks(job, spec)
    attempt = attempt_of(spec)
    refuse(spec.job, delivery_faults(attempt, unit, tasks, waybills, found, names))
    expected: Counter[int] = Counter()
    spent: Counter[str] = Counter()
    for waybill in waybills:
        expected.update(waybill.rows)
        spent.update(waybill.step_ms)  # floats as well
    return Delivery(
        rows,
        any(each.alone for each in waybills),
        [each.task for each in waybills if each.task < STEP_TASKS],
        [each.told for each in waybills if each.told is not None],
        expected,
        spent,
    )


def _parcel(task: int, tag: int, rows: pa.Buffer) -> Parcel:
    return Parcel(task, tag, rows.size, zlib.crc32(rows))
