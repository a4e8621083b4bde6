"""The columns after every operator of a topology, and what runs its column steps.

Plain logic, but for the columns after steps that only Spark can run, which Spark says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from atoll.columns.types import NotCertifiedError
from atoll.errors import DeclarationError
from atoll.steps.columns.computing import computing, united
from atoll.steps.group_agg.declare import GroupAgg
from atoll.steps.group_agg.folding import agg_schema
from atoll.topology.operator import BatchOperator, ColumnOperator, Operator, StateOperator
from atoll.topology.sources import Source, Tick
from atoll.topology.usercode import NO_COLUMN, check_columns, placed
from atoll.topology.ways import in_tasks

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.steps.columns.run import Computing
    from atoll.topology.graph import Graph

ColumnStep = Callable[[ColumnOperator, "list[pa.Schema]"], "pa.Schema"]
"""Says what a column step makes of its inputs' columns."""


_DECLARED = "the topology is declared with columns='spark'"


@dataclass(frozen=True)
class StepWay:
    """What runs a column step.

    Attributes:
        step: As its user calls it.
        place: Where it was declared.
        way: Spark, or the tasks.
        why: Why not the tasks; empty where they do.
    """

    step: str
    place: str
    way: Literal["tasks", "spark"]
    why: str = ""


def column_ways(
    graph: Graph, schemas: Mapping[Operator, pa.Schema], other_meaning: str = ""
) -> dict[Operator, StepWay]:
    """What runs each of a topology's column steps, unions apart.

    Args:
        graph: The topology.
        schemas: The columns after every operator.
        other_meaning: Why expressions mean something else in the session than what is certified;
            empty when they do not.

    Raises:
        DeclarationError: When the topology demands that tasks run all of them, and they cannot.
    """
    found = (each for each in graph.operators if isinstance(each, ColumnOperator))
    steps = [each for each in found if _has_way(each, graph)]
    sure: list[Operator] = []
    failing: list[Operator] = []
    why: dict[Operator, str] = {}
    for step in steps:
        problem, fails = _problem(step, graph, schemas, other_meaning)
        if problem:
            why[step] = problem
        else:
            (failing if fails else sure).append(step)
    kept = in_tasks(graph.operators, sure, failing)
    ways: dict[Operator, StepWay] = {}
    for step in steps:
        if step in kept:
            ways[step] = StepWay(step.title, step.place, "tasks")
            continue
        reason = why.get(step, "a step of Spark's reads or makes its rows")
        ways[step] = StepWay(step.title, step.place, "spark", reason)
        if graph.columns == "tasks":
            raise DeclarationError(
                f"{step.title} needs Spark: {reason}; topology {graph.topology!r} is declared "
                "with columns='tasks'",
                hint="write it in other words or in Python (map), or declare columns='auto'",
                declared=step.place,
            )
    return ways


def _has_way(step: ColumnOperator, graph: Graph) -> bool:
    """Whether anything runs it, and it is more than a union."""
    if step.unites:
        return False
    followed = any(step in each.inputs for each in graph.operators)
    return followed or not step.steers


def _problem(
    step: ColumnOperator,
    graph: Graph,
    schemas: Mapping[Operator, pa.Schema],
    other_meaning: str,
) -> tuple[str, bool]:
    """Why tasks cannot run a column step, empty when they can; whether it fails on some rows."""
    declared = _DECLARED if graph.columns == "spark" else other_meaning
    if isinstance(step, GroupAgg):
        return _of_aggregation(step, schemas) or declared, True
    if not step.compiles:
        return f"{step.title} is a step of Spark's", False
    try:
        made = _made(step, schemas[step.inputs[0]], schemas[step])
    except NotCertifiedError as error:
        return f"{error}", False
    if not made.computes:  # it takes columns as they are, which means the same everywhere
        return "", False
    return declared, made.fails


def _of_aggregation(step: GroupAgg, schemas: Mapping[Operator, pa.Schema]) -> str:
    """Why tasks cannot do one of Spark's aggregations; empty when they can."""
    try:
        made = agg_schema(step, schemas[step.inputs[0]])
    except NotCertifiedError as error:
        return f"{error}"
    named, sparks = ([(each.name, each.type) for each in s] for s in (made, schemas[step]))
    return "" if named == sparks else "columns that Spark makes of other types"


def _made(step: ColumnOperator, rows: pa.Schema, chosen: pa.Schema | None = None) -> Computing:
    if NO_COLUMN in rows.names:
        raise NotCertifiedError("rows without columns")
    return computing(step, rows, chosen)


def schemas_of(graph: Graph, column_step: ColumnStep) -> dict[Operator, pa.Schema]:
    """The columns after each operator of a topology.

    Raises:
        DeclarationError: When a step names a column that is not there or mixes types.
    """
    schemas: dict[Operator, pa.Schema] = {}
    followed = {each for operator in graph.operators for each in operator.inputs}
    for operator in graph.operators:
        inputs = [schemas[each] for each in operator.inputs]
        match operator:
            case Source(depot=depot):
                schemas[operator] = depot.rows
            case Tick(tick=tick):
                schemas[operator] = tick.schema
            case BatchOperator() | StateOperator():
                schemas[operator] = operator.schema(inputs)
            case ColumnOperator() if operator.steers and operator not in followed:
                schemas[operator] = inputs[0]  # a process took its part over
            case ColumnOperator():
                schemas[operator] = column_step(operator, inputs)
        with placed(operator.place):
            check_columns(schemas[operator].names)
    return schemas


def python_steps(graph: Graph) -> ColumnStep:
    """As :func:`python_only`, for a topology that may want Spark nevertheless."""

    def step(operator: ColumnOperator, inputs: list[pa.Schema]) -> pa.Schema:
        computes = isinstance(operator, GroupAgg) or (
            operator.compiles and _computed(operator, inputs[0]).computes
        )
        if graph.columns == "spark" and computes:
            raise DeclarationError(
                f"{operator.title} needs Spark: {_DECLARED}",
                hint="run the module on engine='spark', or declare columns='auto'",
                declared=operator.place,
            )
        return python_only(operator, inputs)

    return step


def python_only(operator: ColumnOperator, inputs: list[pa.Schema]) -> pa.Schema:
    """The column steps that need no Spark: unions, and those whose expressions are all certified.

    Raises:
        DeclarationError: For any other column step.
    """
    if operator.unites:
        return united(operator, inputs)
    if isinstance(operator, GroupAgg):
        return _aggregated(operator, inputs[0])
    return _computed(operator, inputs[0]).chosen


def _computed(operator: ColumnOperator, rows: pa.Schema) -> Computing:
    if not operator.compiles:
        raise _refused(operator)
    try:
        return _made(operator, rows)
    except NotCertifiedError as error:
        raise _refused(operator, error) from None


def _aggregated(operator: GroupAgg, rows: pa.Schema) -> pa.Schema:
    try:
        return agg_schema(operator, rows)
    except NotCertifiedError as error:
        raise _refused(operator, error) from None


def _refused(operator: ColumnOperator, error: NotCertifiedError | None = None) -> DeclarationError:
    why = "" if error is None else f": {error}"
    return DeclarationError(
        f"{operator.title} {operator.why_spark}{why}",
        hint=f"run the module on engine='spark', or {operator.without_spark}",
        declared=operator.place,
    )
