"""Which aggregate makes a column of what an aggregate makes in a PState.

Most are the same. What a PState keeps element by element is one value in a row: a set an array, a
map a map, a struct of aggregates a struct.
"""

from __future__ import annotations

from atoll.aggregates.accumulate import Accumulate
from atoll.aggregates.base import Aggregator
from atoll.aggregates.compound import MapOf, MergeMap
from atoll.aggregates.rows.collect import CollectSet
from atoll.aggregates.rows.lag import Lag
from atoll.aggregates.rows.positions import last
from atoll.aggregates.struct_of import StructOf
from atoll.aggregates.totals.count_distinct import CountDistinct
from atoll.aggregates.valued.boxed import Boxed
from atoll.aggregates.valued.maps import MapValue, MergeMapValue
from atoll.aggregates.valued.sets import DistinctValue, SetValue
from atoll.aggregates.voided import Voided


def as_column(aggregator: Aggregator, *, beside: bool = False) -> Aggregator:
    """The aggregate whose result is one value of a row.

    Args:
        aggregator: As the user wrote it.
        beside: Whether the value stands beside each row, which may look back at others.

    Raises:
        DeclarationError: When there is none; the hint says what to write.
    """
    match aggregator:
        case Lag() if not beside:
            raise aggregator.misplaced()
        case Voided():
            raise aggregator.refusal(
                "deletes entries of a PState, and a row's column holds none",
                'filter the rows instead: where("NOT gone")',
            )
        case CollectSet(removes=True):
            raise aggregator.refusal(
                "takes elements out of a Set that a PState keeps, and a row's column holds none",
                "filter the rows before that take their value out again, or keep the set in a "
                'PState: aggregate(sets["k"], agg.collect_set("v", remove="removed"))',
            )
        case CollectSet():
            return SetValue(aggregator.inputs, str(aggregator))
        case CountDistinct():
            value, test = aggregator.inputs[0], aggregator.condition
            kept = value if test is None else f"CASE WHEN {test} THEN {value} END"
            return DistinctValue((kept,), str(aggregator))
        case MapOf():
            inner = _inside(aggregator.inner, aggregator)
            return MapValue((aggregator.key, *inner.inputs), inner)
        case MergeMap():
            return MergeMapValue(aggregator.inputs, last(aggregator.inputs[0]))
        case StructOf():
            fields = {name: _inside(each, aggregator) for name, each in aggregator.fields}
            return Boxed.of(StructOf.of(fields))
    return aggregator


def _inside(aggregator: Aggregator, outside: Aggregator) -> Aggregator:
    """An aggregate in a map or a struct that is one value."""
    if isinstance(aggregator, Accumulate):
        raise outside.refusal(
            f"has agg.{aggregator} in it, whose rows are not yet a value on their way",
            "aggregate it apart, by one more key, or use agg.combine",
        )
    return as_column(aggregator)
