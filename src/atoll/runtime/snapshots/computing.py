"""Step 5: the state of a range of the event log. The same whoever computes it, however often.

A range of offsets of the log is read in parts; of each part the events that count are those of
the actor whose instance and number the calculation names. A type whose snapshots can be merged
gives a state per part, any other is given all events in order. With Spark each part is a task
of one job; without, the parts are read here, by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from atoll.depot.reader import DepotReader
from atoll.errors import StateError
from atoll.runtime.actors.interface import Event, State
from atoll.runtime.engine.copies import loaded_program
from atoll.runtime.snapshots.counting import Calculation

_PART_EVENTS = 50_000


class Log(msgspec.Struct, frozen=True):
    """Where an event log lies.

    Args:
        folder: Of the depot.
        schema: Its schema.
        start: The oldest offset that may matter.
        end: The offset after the last record.
    """

    folder: str
    schema: Any
    start: int
    end: int


class Part(msgspec.Struct, frozen=True):
    """What one task reads, and for what."""

    runtime: str
    definition: bytes
    actor: str
    ranges: dict[str, tuple[int, int]]
    folder: str
    schema: Any
    start: int
    end: int


class PartResult(msgspec.Struct, frozen=True):
    """What a task found: how many events count, and a state of them or the events themselves."""

    events: int
    state: State = None
    raw: list[Event] = []


RunParts = Callable[[Sequence[Part]], list[PartResult]]
"""Runs :func:`part_of` for each part; in what order, and where, is its own matter."""


def part_of(part: Part) -> PartResult:
    """Read one part and take the snapshot of what counts in it."""
    actor = loaded_program(part.runtime, part.definition, 1).actors[part.actor]
    reader = DepotReader(Path(part.folder), part.schema)
    events = list(_events(reader.read(0, part.start, part.end), part.actor, part.ranges))
    if not actor.kind.mergeable:
        return PartResult(len(events), raw=events)
    if not events:
        return PartResult(0)
    return PartResult(len(events), actor.kind.snapshot(actor.declared.params, events))


def in_this_process(parts: Sequence[Part]) -> list[PartResult]:
    """One part after the other."""
    return [part_of(each) for each in parts]


def compute(
    runtime: str,
    definition: bytes,
    actor: str,
    wanted: Calculation,
    log: Log,
    run: RunParts,
) -> State:
    """The snapshot that a calculation asks for.

    Args:
        runtime: What tells the runtime from others.
        definition: Its definition, as JSON.
        actor: The actor.
        wanted: Which of its events count.
        log: Where they are.
        run: Runs the parts.

    Raises:
        StateError: When the log does not hold exactly the events that count.
    """
    starts = range(log.start, max(log.end, log.start + 1), _PART_EVENTS)
    parts = [
        Part(
            runtime,
            definition,
            actor,
            wanted.ranges,
            log.folder,
            log.schema,
            start,
            min(start + _PART_EVENTS, log.end),
        )
        for start in starts
    ]
    results = run(parts) if wanted.events else []
    found = sum(each.events for each in results)
    if found != wanted.events:
        raise StateError(
            f"the event log holds {found} of the {wanted.events} events of a snapshot",
            hint="a window must not be longer than what the event log keeps",
            actor=actor,
            snapshot=wanted.number,
        )
    program = loaded_program(runtime, definition, 1).actors[actor]
    kind, params = program.kind, program.declared.params
    if not kind.mergeable or not found:
        return kind.snapshot(params, (event for each in results for event in each.raw))
    return kind.combine(params, [each.state for each in results if each.events])


def _events(table: pa.Table, actor: str, ranges: dict[str, tuple[int, int]]) -> Iterator[Event]:
    """The events of a part of the log that count, in order."""
    of_actor = pc.and_(
        pc.equal(table.column("direction"), "incoming"), pc.equal(table.column("actor"), actor)
    )
    rows = table.filter(of_actor).select(["copy", "instance", "number", "event"])
    for copy, instance, number, event in zip(
        *(column.to_pylist() for column in rows.columns), strict=True
    ):
        first, end = ranges.get(f"{copy}.{instance}", (0, 0))
        if first <= number < end:
            yield msgspec.json.decode(event)
