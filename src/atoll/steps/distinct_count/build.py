"""Declares the steps of ``agg.count_distinct``: which values are new, and how many they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from atoll.aggregates.totals.count import EVERY_ROW, Count
from atoll.aggregates.totals.count_distinct import FLAGS_MAX, Flags
from atoll.schema import Map
from atoll.steps.aggregate.declare import Aggregate, AggregateField
from atoll.steps.distinct_count.declare import FirstSeen
from atoll.topology.kept.hidden import Hidden
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    from atoll.steps.aggregate.writes import Write
    from atoll.steps.projection import Projection
    from atoll.topology.flow import Flow

_Counts = tuple[tuple[str | None, str | None], ...]
"""For each count the field that it goes into, and the condition under which a row counts."""


def expressions(write: Write) -> Iterator[str]:
    """What the steps need as columns."""
    yield from (part.text for part in write.target.key_parts)
    for value, _, counts in _shared(write):
        yield _kept(value, counts)
        yield from (condition for _, condition in counts if condition is not None)


def count_distinct(
    stream: Flow, write: Write, projection: Projection, before: Operator, place: str
) -> None:
    """Add the steps of a write's distinct counts; those of one expression share what they keep.

    ``before`` gives the columns of a projection of all :func:`expressions`.
    """
    target = write.target
    keys = tuple(projection.column(part.text) for part in target.key_parts)
    for value, name, counts in _shared(write):
        tests = [condition for _, condition in counts]
        hidden = stream.graph.add_hidden(
            _hidden(stream, write, value, name, counts, place), Map(int, int)
        )
        (state,) = stream.graph.hidden_pstates(hidden)
        step = FirstSeen(
            (before,),
            place,
            projection.column(_kept(value, counts)),
            keys,
            target.key_parts,
            Flags(tuple(test or EVERY_ROW for test in tests)),
            tuple(None if test is None else projection.column(test) for test in tests),
            state,
        )
        stream.graph.add(step)
        fields = tuple(
            AggregateField(field, Count((step.new_name(number),)), (step.new_name(number),))
            for number, (field, _) in enumerate(counts)
        )
        names = tuple(step.key_name(number) for number in range(len(keys)))
        stream.graph.add(Aggregate((step,), place, target, names, fields))


def _shared(write: Write) -> Iterator[tuple[str, str | None, _Counts]]:
    """The expressions counted, their names, and as many counts as can share what they keep."""
    by_value: dict[tuple[str, str | None], list[tuple[str | None, str | None]]] = defaultdict(list)
    for field, each in write.distinct:
        by_value[each.inputs[0], each.name].append((field, each.condition))
    for (value, name), counts in by_value.items():
        for first in range(0, len(counts), FLAGS_MAX):
            yield value, name, tuple(counts[first : first + FLAGS_MAX])


def _hidden(
    stream: Flow, write: Write, value: str, name: str | None, counts: _Counts, place: str
) -> Hidden:
    """What is kept: a bit for each count, in this order, for each value and key."""
    target = write.target
    position = [part.text for part in target.parts if not part.is_key]
    fields = ",".join(field for field, _ in counts if field is not None)
    means = (
        ("keys", ", ".join(part.text for part in target.key_parts)),
        ("counts", value),
        *((f"rows of {field}" if field else "rows", test or "all") for field, test in counts),
    )
    return Hidden(
        "distinct",
        stream.graph.topology,
        (target.pstate.name, *position, ",".join(sorted(fields.split(",")))),
        means,
        stream.graph.ways[stream.operator],
        f"count_distinct({value}) into {target.text}" + (f" ({fields})" if fields else ""),
        (target.pstate.name,),
        name,
        place,
        naming='give it a name: agg.count_distinct("user", name="visitors")',
    )


def _kept(value: str, counts: _Counts) -> str:
    """The expression; null for a value that none of the counts counts: it need not be kept."""
    tests = [condition for _, condition in counts if condition is not None]
    if len(tests) < len(counts):
        return value
    held = " OR ".join(f"({test})" for test in tests)
    return f"CASE WHEN {held} THEN {value} END"
