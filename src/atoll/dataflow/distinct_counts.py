"""Declares the steps of ``agg.count_distinct``: which values are new, and how many they are."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from atoll.aggregates.count import EVERY_ROW, Count
from atoll.aggregates.count_distinct import FLAGS_MAX, Flags
from atoll.dataflow import operators as op
from atoll.dataflow.projection import Projection
from atoll.schema import Map

if TYPE_CHECKING:
    from atoll.dataflow.compound import Write
    from atoll.dataflow.stream import Stream

__all__ = ["count_distinct"]

_Counts = list[tuple[str | None, str | None]]
"""For each count the field that it goes into, and the condition under which a row counts."""


def count_distinct(stream: Stream, write: Write, place: str) -> None:
    """Add the steps of a write's distinct counts; those of one expression share what they keep."""
    by_value: dict[str, _Counts] = defaultdict(list)
    for name, each in write.distinct:
        by_value[each.inputs[0]].append((name, each.condition))
    for value, counts in by_value.items():
        for first in range(0, len(counts), FLAGS_MAX):
            _count(stream, write, value, counts[first : first + FLAGS_MAX], place)


def _count(stream: Stream, write: Write, value: str, counts: _Counts, place: str) -> None:
    target = write.target
    projection = Projection()
    keys = tuple(projection.column(part.text) for part in target.key_parts)
    tests = [condition for _, condition in counts]
    conditions = tuple(None if test is None else projection.column(test) for test in tests)
    if all(tests):  # a value that none of them counts need not be kept
        held = " OR ".join(f"({test})" for test in tests)
        value = f"CASE WHEN {held} THEN {value} END"
    column = projection.column(value)
    step = op.FirstSeen(
        (projection.before(stream, place),),
        place,
        column,
        keys,
        target.key_parts,
        Flags(tuple(test or EVERY_ROW for test in tests)),
        conditions,
        stream.graph.add_private("distinct", Map(int, int), place),
    )
    stream.graph.add(step)
    fields = tuple(
        op.AggregateField(name, Count((step.new_name(number),)), (step.new_name(number),))
        for number, (name, _) in enumerate(counts)
    )
    names = tuple(step.key_name(number) for number in range(len(keys)))
    stream.graph.add(op.Aggregate((step,), place, target, names, fields))
