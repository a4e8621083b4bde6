"""How column steps say which rows their expressions fail on.

Spark SQL gives up a job when an expression fails on a value, and does not say on which row. In a
careful attempt each column step therefore stands behind a *guard*: a column that says which of the
step's expressions fails on the row, null where none does. Spark evaluates them for it the way its
``try_`` functions do theirs. Rows with a guard go their own way, and the step sees the others.

What has no value for each row cannot be guarded: aggregates (their arguments can), generators in a
``select``, a ``transform``. When such a thing fails, the attempt does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from atoll.spark.frames.pruning import referenced
from atoll.spark.jobs.failures import value_problem
from atoll.steps.columns.guards import Guard, Guarded, expression_title
from atoll.steps.columns.join import Join
from atoll.steps.group_agg.declare import GroupAgg
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


GUARD = "__atoll_guard"
"""The hidden column that says which expression fails on a row, by its place among the guards."""


def guard_of(
    operator: ColumnOperator, frame: DataFrame, at: int = 0
) -> tuple[Guarded, Column, list[Column]] | None:
    """The guard of a step over one of its inputs, and the expressions; None where it needs none.

    Args:
        operator: The step.
        frame: Its input; that of a join is known as the condition calls it.
        at: Which input it is.
    """
    guards: list[Guard] = []
    values: list[Column] = []
    for shown, value in _expressions(operator, frame, at):
        columns = _columns_of(value, frame)
        if columns:  # what is computed of no column fails on all rows, or on none
            guards.append(Guard(shown, columns))
            values.append(value)
    if not guards:
        return None
    from pyspark.sql import functions

    failing = functions.lit(None).cast("int")
    for place, value in reversed(list(enumerate(values))):
        failing = functions.when(_fails(value), place).otherwise(failing)
    return Guarded(expression_title(operator), operator.place, tuple(guards)), failing, values


def problem_alone(frame: DataFrame, value: Column) -> str | None:
    """What Spark says when it computes an expression of one row alone."""
    try:
        frame.select(value).collect()
    except Exception as error:  # noqa: BLE001 - whatever it is, Spark has said it
        return value_problem(error)
    return None


def _expressions(
    operator: ColumnOperator, frame: DataFrame, at: int
) -> Iterator[tuple[str, Column]]:
    """What a step computes of each row of an input, and how it is shown."""
    from pyspark.sql import functions

    match operator:
        case Join(conditions=texts):
            for text in texts:
                yield from ((text, each) for each in _sided(frame, text, Join.SIDES[at]))
        case GroupAgg(expressions=texts):
            for text in texts:
                yield from ((text, each) for each in _arguments(frame, text))
        case _:
            yield from ((shown, functions.expr(text)) for shown, text in operator.computed)


def _sided(frame: DataFrame, text: str, side: str) -> list[Column]:
    """What a join's condition computes of the rows of one side alone."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    bridge = getattr(_jvm(), _BRIDGE)
    session: Any = frame.sparkSession._jsparkSession  # noqa: SLF001 - no public way
    whole = session.sessionState().sqlParser().parseExpression(text)
    found = _parts_of(whole, side)
    return [ClassicColumn(bridge.column(each)) for each in found]


def _parts_of(expression: Any, side: str) -> Iterator[Any]:
    """The largest parts of a condition over one side, that are computed for each of its rows."""
    sides = set(_sides(expression))
    if sides == {side} and expression.getClass().getSimpleName() != _COLUMN:
        yield expression
    elif side in sides and expression.getClass().getSimpleName() in _COMPARING:
        for each in _each(expression.children()):
            yield from _parts_of(each, side)


def _sides(expression: Any) -> Iterator[str]:
    if expression.getClass().getSimpleName() == _COLUMN:
        yield expression.nameParts().head()
    for each in _each(expression.children()):
        yield from _sides(each)


_COLUMN = "UnresolvedAttribute"
_COMPARING = frozenset(
    {
        "And",
        "EqualNullSafe",
        "EqualTo",
        "GreaterThan",
        "GreaterThanOrEqual",
        "LessThan",
        "LessThanOrEqual",
        "Not",
    }
)
"""What computes all of its parts, so that a part fails on a row whatever the other side is."""


def _arguments(frame: DataFrame, text: str) -> list[Column]:
    """What the aggregates of an expression take of each row."""
    from pyspark.sql import functions
    from pyspark.sql.classic.column import Column as ClassicColumn

    try:
        plan: Any = frame.groupBy().agg(functions.expr(text))._jdf  # noqa: SLF001 - no public way
    except Exception:  # noqa: BLE001 - it names keys: then Spark says so where it runs
        return []
    bridge = getattr(_jvm(), _BRIDGE)
    found = _calls(_each(plan.queryExecution().analyzed().expressions()))
    return [ClassicColumn(bridge.column(each)) for each in found]


def _calls(expressions: Iterable[Any]) -> Iterator[Any]:
    """The arguments and filters of the aggregate functions in expressions."""
    for each in expressions:
        if each.getClass().getSimpleName() == "AggregateExpression":
            yield from _each(each.aggregateFunction().children())
            yield from _each(each.filter().toList())
        else:
            yield from _calls(_each(each.children()))


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


_BRIDGE = "org.apache.spark.sql.classic.ExpressionUtils"
_TRY = "org.apache.spark.sql.catalyst.expressions.TryEval"


def _fails(value: Column) -> Column:
    """Whether an expression fails: Spark makes null of a struct whose only member does."""
    from pyspark.sql import functions
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm = _jvm()
    bridge, attempt = getattr(jvm, _BRIDGE), getattr(jvm, _TRY)
    whole: Any = functions.struct(value.alias("value"))
    tried = attempt(bridge.expression(whole._jc))  # noqa: SLF001
    return ClassicColumn(bridge.column(tried)).isNull()


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._active_spark_context._jvm  # type: ignore[union-attr]  # noqa: SLF001


def _columns_of(value: Column, frame: DataFrame) -> tuple[str, ...]:
    """The columns that an expression reads; none when it cannot be guarded."""
    with contextlib.suppress(Exception):  # an aggregate, a generator: no value for each row
        plan: Any = frame.select("*", _fails(value).alias(GUARD))._jdf  # noqa: SLF001
        analyzed = plan.queryExecution().analyzed()
        if analyzed.nodeName() == "Project":
            bare: Any = frame.select(value)._jdf  # noqa: SLF001
            names = referenced(bare.queryExecution().analyzed())
            return tuple(name for name in frame.columns if name in names)
    return ()
