"""Declares ``group_by(...).agg(...)``, and checks it where it is declared.

There are two kinds of aggregates. Texts are Spark SQL's and run in Spark. Those of ``atoll.agg``
run on the actors, as they do into a PState: on every engine, in arrival order where that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.aggregates.base import Aggregator
from atoll.aggregates.totals.count import EVERY_ROW
from atoll.aggregates.valued.columns import as_column
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


def aggregated(
    stream: Flow,
    keys: tuple[str, ...],
    expressions: tuple[str, ...],
    aggregates: Mapping[str, Aggregator],
    place: str,
) -> Flow:
    """Add a :class:`~atoll.steps.group_agg.declare.GroupAgg` or a ``Fold``."""
    _check(expressions, aggregates, place)
    columns = as_columns(aggregates, place)
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
    fields = fields_of(columns, projection)
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


def _check(
    expressions: tuple[str, ...],
    aggregates: Mapping[str, Aggregator],
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


def as_columns(
    aggregates: Mapping[str, Aggregator], place: str, *, beside: bool = False
) -> dict[str, Aggregator]:
    """The aggregates whose results are columns.

    Args:
        aggregates: By the names of their columns, as users wrote them.
        place: Where the step was declared.
        beside: Whether they stand beside each row.

    Raises:
        DeclarationError: When one is none, or has no result that a column could hold.
    """
    made = {}
    for name, aggregator in aggregates.items():
        if not isinstance(aggregator, Aggregator):
            raise DeclarationError(
                f"{name}={aggregator!r} is no aggregate",
                hint=f'{name}=agg.sum("v"), or as Spark SQL: agg("sum(v) AS {name}")',
                declared=place,
            )
        try:
            made[name] = as_column(aggregator, beside=beside)
        except DeclarationError as error:
            raise DeclarationError(
                f"{name}: {error.message}", hint=error.hint, declared=place
            ) from None
    return made
