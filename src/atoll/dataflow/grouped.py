"""What ``group_by`` returns, and the aggregates over it.

There are two kinds of aggregates. Texts are Spark SQL's and run in Spark. Those of ``atoll.agg``
run on the actors, as they do into a PState: on every engine, in arrival order where that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.aggregates.base import Aggregator
from atoll.aggregates.count import EVERY_ROW
from atoll.dataflow import operators as op
from atoll.dataflow.operators.columns import named
from atoll.dataflow.projection import Projection
from atoll.dataflow.usercode import declared_at
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.dataflow.stream import Stream

__all__ = ["Grouped", "aggregated", "check_aggregates"]


class Grouped:
    """The rows of one microbatch by key, to be aggregated."""

    __slots__ = ("keys", "stream")

    def __init__(self, stream: Stream, keys: tuple[str, ...]) -> None:
        """Made by ``Stream.group_by``."""
        self.stream = stream
        self.keys = keys

    def agg(self, *expressions: str, **aggregates: Aggregator) -> Stream:
        """One row per combination of the keys: the keys' columns, then the aggregates.

        ``agg("sum(v) AS total", "count(1) AS n")`` takes Spark SQL's aggregates,
        ``agg(total=agg.sum("v"), n=agg.count())`` those of ``atoll.agg``.

        Raises:
            DeclarationError: When there is no aggregate, or both kinds.
        """
        return aggregated(self.stream, self.keys, expressions, aggregates, declared_at(1))


def aggregated(
    stream: Stream,
    keys: tuple[str, ...],
    expressions: tuple[str, ...],
    aggregates: Mapping[str, Aggregator],
    place: str,
) -> Stream:
    """Add a :class:`~atoll.dataflow.operators.GroupAgg` or a ``Fold``."""
    _check(expressions, aggregates, place)
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
        step = op.WithColumns((stream.operator,), place, computed)
        stream.graph.add(step)
        stream = type(stream)(stream.graph, step)
    if expressions:
        return _then(stream, op.GroupAgg((stream.operator,), place, names, expressions))
    projection = Projection()
    fields = tuple(
        op.AggregateField(
            name,
            each,
            tuple(None if text == EVERY_ROW else projection.column(text) for text in each.inputs),
        )
        for name, each in aggregates.items()
    )
    before = projection.before(stream, place)
    return _then(stream, op.Fold((before,), place, names, fields))


def _check(expressions: tuple[str, ...], aggregates: Mapping[str, Aggregator], place: str) -> None:
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
    check_aggregates(aggregates, place)


def check_aggregates(aggregates: Mapping[str, Aggregator], place: str) -> None:
    """Hold that these are aggregates whose results can be columns.

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
                hint='use agg.collect_list, or Spark SQL: agg("collect_set(v) AS vs")',
                declared=place,
            )


def _then(stream: Stream, operator: op.Operator) -> Stream:
    stream.graph.add(operator)
    return type(stream)(stream.graph, operator)
