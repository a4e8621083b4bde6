"""Declares ``group_by(...).agg(...)``, and checks it where it is declared.

There are two kinds of aggregates. Texts are Spark SQL's and run in Spark. Those of ``atoll.agg``
run on the actors, as they do into a PState: on every engine, in arrival order where that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from atoll.aggregates.base import Aggregator
from atoll.aggregates.compound import MapOf, MergeMap
from atoll.aggregates.totals.count import EVERY_ROW
from atoll.aggregates.totals.count_distinct import CountDistinct
from atoll.errors import DeclarationError
from atoll.steps.aggregate.declare import AggregateField
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.fold.declare import Fold
from atoll.steps.group_agg.declare import GroupAgg
from atoll.steps.projection import Projection
from atoll.topology.expressions import named
from atoll.topology.flow import Flow, after

if TYPE_CHECKING:
    from collections.abc import Mapping


class Instead(NamedTuple):
    """What to write where an aggregate needs a PState and there is none."""

    of_sets: str
    of_distinct_counts: str


IN_QUERIES = Instead(
    'use agg.collect_list, behind distinct("k", "v") when each value shall come once',
    'put distinct("k", "v") before and count its rows with agg.count(), or use '
    "agg.approx_count_distinct",
)
IN_TOPOLOGIES = Instead(
    "use agg.collect_list; or aggregates of Spark's alone, on engine='spark': "
    'agg("collect_set(v) AS vs")',
    "use agg.approx_count_distinct; or aggregates of Spark's alone, on engine='spark': "
    'agg("count(DISTINCT v) AS n")',
)
IN_WINDOWS = Instead(
    "use agg.collect_list, or keep the sets in a PState: "
    'window(...).aggregate(sets["k"]["window_start"], agg.collect_set("v"))',
    "use agg.approx_count_distinct, or keep the counts in a PState: "
    'window(...).aggregate(counts["k"]["window_start"], agg.count_distinct("v"))',
)


def aggregated(
    stream: Flow,
    keys: tuple[str, ...],
    expressions: tuple[str, ...],
    aggregates: Mapping[str, Aggregator],
    place: str,
) -> Flow:
    """Add a :class:`~atoll.steps.group_agg.declare.GroupAgg` or a ``Fold``."""
    _check(expressions, aggregates, _instead(stream), place)
    pairs = [named(key) for key in keys]
    names = tuple(name for _, name in pairs)
    if len(set(names)) < len(names):
        raise DeclarationError(
            f"group_by has two keys of one name: {', '.join(names)}",
            hint='name them: group_by("upper(k) AS big")',
            declared=place,
        )
    computed = tuple((name, text) for text, name in pairs if text.strip("`") != name)
    if computed:
        step = WithColumns((stream.operator,), place, computed, "group_by")
        stream = after(stream.graph, step)
    if expressions:
        return after(stream.graph, GroupAgg((stream.operator,), place, names, expressions))
    projection = Projection()
    fields = fields_of(aggregates, projection)
    before = projection.before(stream, place, "agg")
    return after(stream.graph, Fold((before,), place, names, fields))


def fields_of(
    aggregates: Mapping[str, Aggregator], projection: Projection
) -> tuple[AggregateField, ...]:
    """The aggregates of a step over the columns that a projection computes."""
    return tuple(
        AggregateField(
            name,
            each,
            tuple(None if text == EVERY_ROW else projection.column(text) for text in each.inputs),
        )
        for name, each in aggregates.items()
    )


def _instead(stream: Flow) -> Instead:
    return IN_QUERIES if stream.graph.word == "query" else IN_TOPOLOGIES


def _check(
    expressions: tuple[str, ...],
    aggregates: Mapping[str, Aggregator],
    instead: Instead,
    place: str,
) -> None:
    if bool(expressions) == bool(aggregates):
        raise DeclarationError(
            "agg takes aggregates either as Spark SQL or as those of atoll.agg by keyword",
            hint='agg("sum(v) AS total") or agg(total=agg.sum("v"))',
            declared=place,
        )
    for each in expressions:
        if not isinstance(each, str) or not each.strip():
            raise DeclarationError(
                f"agg takes Spark SQL as text, not {each!r}",
                hint='an aggregate of atoll.agg needs a name: agg(total=agg.sum("v"))',
                declared=place,
            )
    check_aggregates(aggregates, instead, place)


def check_aggregates(aggregates: Mapping[str, Aggregator], instead: Instead, place: str) -> None:
    """Hold that these are aggregates whose results can be columns.

    Args:
        aggregates: By the names of their columns.
        instead: What to write where one is not, by where they stand.
        place: Where the step was declared.

    Raises:
        DeclarationError: When one is not.
    """
    for name, aggregator in aggregates.items():
        if not isinstance(aggregator, Aggregator):
            raise DeclarationError(
                f"{name}={aggregator!r} is no aggregate",
                hint=f'{name}=agg.sum("v"), or as Spark SQL: agg("sum(v) AS {name}")',
                declared=place,
            )
        if aggregator.element_wise:
            raise DeclarationError(
                f"{name}=agg.{aggregator} adds elements to a Set, and rows hold none",
                hint=instead.of_sets,
                declared=place,
            )
        if isinstance(aggregator, CountDistinct):
            raise DeclarationError(
                f"{name}=agg.{aggregator} keeps its values in a PState, and there is none here",
                hint=instead.of_distinct_counts,
                declared=place,
            )
        if isinstance(aggregator, MapOf | MergeMap):
            raise DeclarationError(
                f"{name}=agg.{aggregator} adds entries to a Map, and rows hold none",
                hint="make each entry a row: name the key of the map as one more key, and "
                "aggregate its values",
                declared=place,
            )
