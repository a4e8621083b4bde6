"""Runs the Python steps of a chain over the batches of its origin and feeds its terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from atoll.tasks.appending import AppendPacker
from atoll.tasks.careful import FIRST
from atoll.tasks.fold import group_mapping
from atoll.tasks.observing import ObservePacker
from atoll.tasks.packing import Packer
from atoll.tasks.program import (
    AppendTerminal,
    ChangesTerminal,
    FoldTerminal,
    MaterializeTerminal,
)
from atoll.tasks.provenance import locating
from atoll.tasks.reading import read_split
from atoll.tasks.rejects import REJECTS, UNHEARD, RejectPacker
from atoll.tasks.spreading import SpreadPacker
from atoll.tasks.timed_terminals import ObserveTerminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from atoll.dataflow.operators import BatchOperator
    from atoll.dataflow.usercode import Rejects
    from atoll.tasks.program import JobSpec, Program, TaskChain

__all__ = ["feed", "feed_splits", "packed", "packers_of", "run_steps"]


AnyPacker = Packer | AppendPacker | SpreadPacker | RejectPacker | ObservePacker


def packers_of(program: Program, spec: JobSpec, sequence: int = 0) -> dict[int, AnyPacker]:
    """A packer for every step of a job that takes rows, by tag; one for rows set aside.

    ``sequence`` is the packing task's number: rows that any actor may take go to them in turn.
    """
    packers: dict[int, AnyPacker] = {}
    aside = None if program.dead_letter is None else RejectPacker(program, spec, sequence)
    refused = (aside or FIRST) if spec.careful else None
    for terminal in program.jobs[spec.job].terminals:
        if isinstance(terminal, ChangesTerminal):
            continue
        if isinstance(terminal, AppendTerminal):
            unit = program.units[sequence % len(program.units)]
            packers[terminal.tag] = AppendPacker(terminal, unit, refused)
            continue
        if isinstance(terminal, MaterializeTerminal):
            unit = program.units[sequence % len(program.units)]
            tracked = program.tracks(terminal)
            packers[terminal.tag] = SpreadPacker(terminal, unit, tracked=tracked)
            continue
        if isinstance(terminal, ObserveTerminal):
            packers[terminal.tag] = ObservePacker(terminal, spec.ranges, program.units[0])
            continue
        if isinstance(terminal, FoldTerminal):
            mapping = group_mapping(program.units)
            packers[terminal.tag] = Packer(terminal, mapping, tracked=spec.careful, rejects=refused)
            continue
        name = getattr(terminal, "pstate", None) or terminal.states[0]  # type: ignore[attr-defined]
        tracked = program.tracks(terminal)
        mapping = program.mapping(name)
        packers[terminal.tag] = Packer(
            terminal,
            mapping,
            tracked=tracked or spec.careful,
            combine_rows_max=spec.combine_rows_max,
            rejects=refused,
        )
    if aside is not None:
        packers[REJECTS] = aside
    return packers


def feed_splits(
    program: Program,
    spec: JobSpec,
    chains: Iterable[TaskChain],
    index: int,
    packers: Mapping[int, AnyPacker],
) -> None:
    """Read the splits of one reading task and run the chains over their rows."""
    for split in spec.splits[index]:
        fed = [chain for chain in chains if chain.origin == split.origin]
        if fed:
            feed(program, spec, list(read_split(program, split)), fed, packers)


def feed(
    program: Program,
    spec: JobSpec,
    batches: list[pa.RecordBatch],
    chains: Iterable[TaskChain],
    packers: Mapping[int, AnyPacker],
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
            rows = run_steps(iter(batches), chain.origin_schema, steps, rejects, chain.repeated)
            for batch in rows:
                for tag in chain.terminals:
                    packer = packers[tag]
                    assert not isinstance(packer, RejectPacker)
                    packer.add(batch)


def packed(
    program: Program, spec: JobSpec, packers: Mapping[int, AnyPacker], only: int | None = None
) -> Iterator[tuple[int, int, pa.Buffer]]:
    """What a task packed: tags, units and blobs; of one unit only when its actor asks.

    Rows that packing refuses are told last.

    Raises:
        AtollError: When rows cannot be packed.
    """
    with locating(program, spec):
        for tag, packer in packers.items():
            for unit, rows in packer.finish(only):
                yield tag, unit, rows


def run_steps(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    steps: Iterable[BatchOperator],
    rejects: Rejects | None = None,
    repeated: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The batches after all steps, lazily; without steps the batches themselves.

    Rows that a step rejects go to ``rejects``; those of the first ``repeated`` steps are dropped,
    because they are reported where the same steps run over the same rows.
    """
    for index, step in enumerate(steps):
        heard = rejects if rejects is None or index >= repeated else UNHEARD
        batches = step.run(batches, schema, heard)
        schema = step.schema((schema,))
    return batches
