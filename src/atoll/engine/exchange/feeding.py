"""Runs the steps of a chain over the batches of its origin, and feeds what it leads to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from atoll.engine.exchange.blobs import Blob
from atoll.engine.exchange.careful import FIRST
from atoll.engine.exchange.provenance import locating
from atoll.engine.exchange.reading import read_split
from atoll.engine.exchange.rejects import UNHEARD, RejectPacker
from atoll.engine.exchange.tally import ChainCounts
from atoll.engine.exchange.waybills import Packers
from atoll.engine.step import Packing
from atoll.microbatch.accounts.entries import REJECTS

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.program import JobSpec, Program, TaskChain
    from atoll.topology.operator import BatchOperator
    from atoll.topology.usercode import Rejects


READER = "reading task"
"""What a task is called that reads and packs."""

_READING, _PACKING = "reading rows", "packing rows"


def packers_of(program: Program, spec: JobSpec, sequence: int = 0) -> Packers:
    """A packer for every step of a job that takes rows, by tag; one for rows set aside.

    ``sequence`` is the packing task's number: rows that any actor may take go to them in turn.
    """
    packers = Packers(program, spec, sequence)
    aside = None if program.dead_letter is None else RejectPacker(program, spec, sequence)
    packing = packing_of(program, spec, sequence, aside)
    for step in program.jobs[spec.job].steps:
        packer = step.packer(packing)
        if packer is not None:
            packers[step.tag] = packer
    if aside is not None:
        packers[REJECTS] = aside
    return packers


def packing_of(
    program: Program, spec: JobSpec, sequence: int = 0, aside: Rejects | None = None
) -> Packing:
    """What a packing task tells the steps of its job."""
    return Packing(
        program.units,
        sequence,
        program.mapping,
        program.tracked,
        spec.ranges,
        spec.careful,
        (aside or FIRST) if spec.careful else None,
        spec.combine_rows_max,
    )


def feed_splits(
    program: Program,
    spec: JobSpec,
    chains: Iterable[TaskChain],
    index: int,
    packers: Packers,
) -> None:
    """Read the splits of one reading task and run the chains over their rows."""
    for split in spec.splits[index]:
        fed = [chain for chain in chains if chain.origin == split.origin]
        if fed:
            feed(program, spec, list(read_split(program, split, packers.read)), fed, packers)


def packed_alone(program: Program, spec: JobSpec, units: Collection[int]) -> dict[int, list[Blob]]:
    """What the actors of a process pack for themselves: all is read, and their rows are kept."""
    blobs: dict[int, list[Blob]] = {unit: [] for unit in units}
    for unit, tag, rows in fed(program, spec, range(len(spec.splits))).parcels(only=units):
        blobs[unit].append((tag, 0, rows))
    return blobs


def fed(program: Program, spec: JobSpec, indices: Sequence[int], sequence: int = 0) -> Packers:
    """The packers of a task that has read the splits of some reading tasks."""
    packers = packers_of(program, spec, sequence)
    for index in indices:
        feed_splits(program, spec, program.jobs[spec.job].chains, index, packers)
    return packers


def feed(
    program: Program,
    spec: JobSpec,
    batches: list[pa.RecordBatch],
    chains: Iterable[TaskChain],
    packers: Packers,
) -> None:
    """Run the chains over rows of their common origin, into the packers that they lead to.

    Raises:
        AtollError: When a user's function raises and the topology sets no rows aside.
    """
    found = packers.get(REJECTS)
    rejects = found if isinstance(found, RejectPacker) else None
    with locating(program, spec):
        for chain in chains:
            steps = [step.at(spec.times) for step in chain.steps]
            counts = packers.counts(chain)
            rows = run_steps(
                iter(batches),
                chain.origin_schema,
                steps,
                rejects,
                chain.repeated,
                counts,
                careful=spec.careful,
            )
            for batch in rows:
                for tag in chain.ends:
                    packer = packers[tag]
                    assert not isinstance(packer, RejectPacker)
                    packer.add(batch)


def run_steps(  # noqa: PLR0913  # what a chain and an attempt are, from two callers
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    steps: Iterable[BatchOperator],
    rejects: Rejects | None = None,
    repeated: int = 0,
    counts: ChainCounts | None = None,
    *,
    careful: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The batches after all steps, lazily; without steps the batches themselves.

    Rows that a step rejects go to ``rejects``; those of the first ``repeated`` steps are dropped,
    because they are reported where the same steps run over the same rows. ``counts`` are told
    how many rows go in and come out of each step. Rows on which an expression fails are rejected
    only in a ``careful`` attempt, whose rows know their records; else they end the attempt.
    """
    steps = list(steps)
    then = [*steps, _PACKING]
    batches = batches if counts is None else counts.passing(batches, 0, _READING, then[0])
    for index, step in enumerate(steps):
        heard = rejects if rejects is None or index >= repeated else UNHEARD
        if step.rejects_carefully and not careful:
            heard = None
        if counts is None:
            batches = step.run(batches, schema, heard)
        else:
            ran = step.run(batches, schema, counts.rejecting(heard, index))
            batches = counts.passing(ran, index + 1, step, then[index + 1])
        schema = step.schema((schema,))
    return batches
