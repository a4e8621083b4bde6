"""Declares aggregates into a PState, and checks them where they are declared.

Keys and aggregates name Spark SQL expressions. Those that are more than a column are computed by
one projection before the step, under names of their own, so that the step itself sees columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from atoll.aggregates.base import Aggregator
from atoll.aggregates.struct_of import StructOf
from atoll.aggregates.totals.count import EVERY_ROW
from atoll.errors import DeclarationError
from atoll.schema import Set
from atoll.steps.aggregate.declare import Aggregate, AggregateField
from atoll.steps.aggregate.live_sessions import check_sessions
from atoll.steps.aggregate.meanings import written
from atoll.steps.aggregate.writes import Exploded, Write, writes_of
from atoll.steps.distinct_count.build import count_distinct
from atoll.steps.distinct_count.build import expressions as counted_expressions
from atoll.steps.projection import Projection
from atoll.steps.rows.explode_map import ExplodeMap
from atoll.topology.expressions import bare_column
from atoll.topology.flow import Flow, after, own_target

if TYPE_CHECKING:
    from atoll.topology.declared import PStateDeclaration, Target
    from atoll.topology.operator import Operator


def aggregate(
    stream: Flow,
    into: Target | PStateDeclaration,
    aggregator: Aggregator | None,
    fields: Mapping[str, Aggregator],
    place: str,
    *,
    gap_ms: int | None = None,
) -> tuple[Target, tuple[str, ...]]:
    """Add the aggregates into a place of a PState.

    Args:
        stream: The rows.
        into: The place.
        aggregator: The aggregate, or None where ``fields`` are given.
        fields: One aggregate per field of a struct.
        place: Where the user said so.
        gap_ms: For entries that are sessions the gap that ends one.

    Returns:
        What was written, and the expressions of the entries' keys.
    """
    target = own_target(stream, into, "aggregate", place)
    if (aggregator is None) == (not fields):
        raise DeclarationError(
            "aggregate takes one aggregate, or one per field of a struct by keyword",
            hint=f"for example aggregate({target.text}, agg.count())",
            declared=place,
        )
    for each in fields.values() if aggregator is None else (aggregator,):
        if not isinstance(each, Aggregator):
            raise DeclarationError(
                f"aggregate takes aggregates, not {each!r}",
                hint=f"for example aggregate({target.text}, agg.count())",
                declared=place,
            )
    writes = writes_of(target, aggregator or StructOf.of(fields), place)
    if gap_ms is not None:
        check_sessions(target, writes, place)
    for exploded, shared in groupby(writes, key=lambda each: each.exploded):
        rows, together = _exploded(stream, exploded, place), list(shared)
        projection = Projection.of(text for write in together for text in _expressions(write))
        before = projection.before(rows, place, "aggregate")
        for write in together:
            _add_aggregate(rows, write, projection, before, place, by_session=gap_ms is not None)
            count_distinct(rows, write, projection, before, place)
            stream.graph.written += written(write, gap_ms)
    if len(writes) > 1:
        return target, ()
    return writes[0].target, writes[0].key_names


def _exploded(stream: Flow, exploded: Exploded | None, place: str) -> Flow:
    """The stream whose rows are the entries of the map that is taken apart."""
    if exploded is None:
        return stream
    projection = Projection()
    column = projection.column(exploded.expression)
    before = projection.before(stream, place, "aggregate")
    key, value = (str(bare_column(name)) for name in (exploded.key, exploded.value))
    return after(stream.graph, ExplodeMap((before,), place, column, key, value))


def _expressions(write: Write) -> Iterator[str]:
    """What the steps of a write need as columns."""
    yield from _key_texts(write)
    yield from (text for _, each in write.fields for text in each.inputs if text != EVERY_ROW)
    yield from counted_expressions(write)


def _key_texts(write: Write) -> Iterator[str]:
    yield from (part.text for part in write.target.key_parts)
    if isinstance(write.target.node, Set) and not write.deletes:
        yield from (each.inputs[0] for _, each in write.fields)


def _add_aggregate(
    stream: Flow,
    write: Write,
    projection: Projection,
    before: Operator,
    place: str,
    *,
    by_session: bool,
) -> None:
    declared = tuple(
        AggregateField(
            name,
            each,
            tuple(None if text == EVERY_ROW else projection.column(text) for text in each.inputs),
        )
        for name, each in write.fields
    )
    keys = tuple(map(projection.column, _key_texts(write)))
    step = Aggregate((before,), place, write.target, keys, declared, write.deletes, by_session)
    stream.graph.add(step)
