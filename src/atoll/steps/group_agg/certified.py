"""Spark SQL's plain aggregates without Spark: ``group_by("k").agg("sum(v) AS total")``.

``count``, ``sum``, ``avg``, ``min`` and ``max`` of certified expressions are a fold of Atoll's own
aggregates between two projections: one computes what is aggregated, the other brings the results
to the types that Spark gives them. Partial aggregates are built where the rows are, either way.

Pure: it makes operators of an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.aggregates.totals.count import count
from atoll.aggregates.totals.extremes import max as greatest
from atoll.aggregates.totals.extremes import min as least
from atoll.aggregates.totals.sums import avg
from atoll.aggregates.totals.sums import sum as total
from atoll.columns.reading import computed, parsed
from atoll.columns.types import (
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INSTANT,
    INTEGERS,
    NotCertifiedError,
    is_decimal,
    is_floating,
    is_integer,
    words,
)
from atoll.steps.aggregate.declare import AggregateField
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.fold.declare import Fold
from atoll.topology.expressions import named, quoted

if TYPE_CHECKING:
    from atoll.aggregates.base import Aggregator
    from atoll.steps.group_agg.declare import GroupAgg
    from atoll.topology.operator import Operator


_KEYS = (pa.string(), pa.bool_(), DATE, INSTANT, *INTEGERS)
_EXTREMES = (pa.string(), DATE, INSTANT, DOUBLE, *INTEGERS)
_FOLDED_DIGITS = 20
"""Before the point, of the decimals that folds keep; 18 behind it."""
_FOLDED_SCALE = 18
_SUM_DIGITS_MORE = 10
_WORDS = {"Count": "count", "Sum": "sum", "Avg": "avg", "Min": "min", "Max": "max"}
_EVERY = "*"


@dataclass(frozen=True)
class CertifiedAgg:
    """The steps that do in tasks what Spark's aggregation does.

    Attributes:
        before: What is aggregated, as columns; None where all of it are columns.
        fold: The aggregates.
        after: The results as Spark's types.
    """

    before: WithColumns | None
    fold: Fold
    after: WithColumns


@dataclass(frozen=True)
class _Field:
    """One aggregate: its argument's text, empty for every row, and what its result is cast to."""

    name: str
    word: str
    argument: str
    cast: str = ""


def certified_agg(step: GroupAgg, rows: pa.Schema) -> CertifiedAgg:
    """The same aggregation without Spark.

    Args:
        step: As declared.
        rows: The columns before it.

    Raises:
        NotCertifiedError: When Spark has to aggregate, with the reason in words.
    """
    for key in step.keys:
        if key not in rows.names or rows.field(key).type not in _KEYS:
            raise NotCertifiedError(f"groups by {key}, of a type that tasks do not group by")
    fields = [_field(text, rows) for text in step.expressions]
    names = [each.name for each in fields]
    if len({*step.keys, *names}) < len(step.keys) + len(names):
        raise NotCertifiedError("two columns of one name")
    return _steps(step, step.inputs[0], fields)


def _steps(step: GroupAgg, source: Operator, fields: list[_Field]) -> CertifiedAgg:
    texts = list(dict.fromkeys(each.argument for each in fields if each.argument))
    hidden = {text: f"__e{at}" for at, text in enumerate(texts)}
    before = None
    if hidden:
        pairs = tuple((name, text) for text, name in hidden.items())
        before = WithColumns((source,), step.place, pairs, step.title)
    folded = tuple(
        AggregateField(each.name, _aggregator(each, hidden), (hidden.get(each.argument),))
        for each in fields
    )
    fold = Fold((before or source,), step.place, step.keys, folded)
    casts = tuple((each.name, _shown(each)) for each in fields)
    return CertifiedAgg(before, fold, WithColumns((fold,), step.place, casts, step.title))


def _aggregator(field: _Field, hidden: dict[str, str]) -> Aggregator:
    if not field.argument:
        return count()
    column = hidden[field.argument]
    return _MAKES[field.word](column)


_MAKES: dict[str, Callable[[str], Aggregator]] = {
    "count": count,
    "sum": total,
    "avg": avg,
    "min": least,
    "max": greatest,
}


def _shown(field: _Field) -> str:
    name = quoted(field.name)
    return f"cast({name} AS {field.cast})" if field.cast else name


def _field(text: str, rows: pa.Schema) -> _Field:
    call, name = named(text)
    if name == call:
        raise NotCertifiedError("an aggregate without a name: write AS name")
    word, given = _call(call)
    if not given:
        return _Field(name, word, "")
    kind = computed(given, rows).type
    return _typed(name, word, given, kind)


def _call(call: str) -> tuple[str, str]:
    """The aggregate's word and its argument; no argument where it counts every row."""
    tree = parsed(call)
    key = type(tree).__name__
    word = "avg" if key == "Anonymous" and tree.name.lower() == "mean" else _WORDS.get(key, "")
    if not word:
        raise NotCertifiedError(f"{tree.key} is not among the aggregates that are certified")
    arguments = list(tree.expressions) if key == "Anonymous" else [tree.this, *tree.expressions]
    if len(arguments) != 1 or not call.rstrip().endswith(")"):
        raise NotCertifiedError(f"{word} of more than one expression")
    (argument,) = arguments
    if type(argument).__name__ == "Distinct":
        raise NotCertifiedError(f"{word} of distinct values")
    if word == "count" and _is_every_row(argument):
        return word, ""
    return word, call.partition("(")[2].rstrip()[:-1].strip()


def _is_every_row(argument: Any) -> bool:
    return type(argument).__name__ in ("Star", "Literal")


def _typed(name: str, word: str, given: str, kind: pa.DataType) -> _Field:
    """The field for an argument of that type; narrow results are cast back to it."""
    number = is_integer(kind) or is_floating(kind)
    if word == "count":
        return _Field(name, word, given)
    if word == "avg" and number:
        return _Field(name, word, f"cast({given} AS double)")
    if word == "sum" and is_integer(kind):
        return _Field(name, word, given)
    if word == "sum" and number:
        return _Field(name, word, f"cast({given} AS double)")
    if word in ("sum", "min", "max") and is_decimal(kind):
        return _of_decimals(name, word, given, kind)
    if word in ("min", "max") and kind in _EXTREMES:
        narrow = is_integer(kind) and kind != pa.int64()
        return _Field(name, word, given, _SHORT[kind] if narrow else "")
    raise NotCertifiedError(f"{word} of {words(kind)}")


_SHORT = {pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int"}


def _of_decimals(name: str, word: str, given: str, kind: pa.DataType) -> _Field:
    more = _SUM_DIGITS_MORE if word == "sum" else 0
    whole = kind.precision - kind.scale + more
    if whole > _FOLDED_DIGITS or kind.scale > _FOLDED_SCALE:
        raise NotCertifiedError(f"{word} of {words(kind)}, which has more digits than folds keep")
    precision = min(kind.precision + more, DECIMAL_DIGITS_MAX)
    return _Field(name, word, given, f"decimal({precision}, {kind.scale})")
