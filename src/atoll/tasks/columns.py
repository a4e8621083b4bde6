"""The columns after every operator of a topology: plain logic, but for Spark's own column steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from atoll.dataflow import operators as op
from atoll.dataflow.usercode import check_columns, placed
from atoll.errors import DeclarationError
from atoll.tasks.bind import emitted_schema
from atoll.tasks.pick import picked_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.dataflow.graph import Graph

__all__ = ["ColumnStep", "python_only", "schemas_of"]

ColumnStep = Callable[[op.ColumnOperator, "list[pa.Schema]"], "pa.Schema"]
"""Says what a column step makes of its inputs' columns."""


def schemas_of(graph: Graph, column_step: ColumnStep) -> dict[op.Operator, pa.Schema]:
    """The columns after each operator of a topology.

    Raises:
        DeclarationError: When a step names a column that is not there or mixes types.
    """
    schemas: dict[op.Operator, pa.Schema] = {}
    followed = {each for operator in graph.operators for each in operator.inputs}
    for operator in graph.operators:
        match operator:
            case op.Source(depot=depot):
                schemas[operator] = depot.schema
            case op.Tick(tick=tick):
                schemas[operator] = tick.schema
            case op.StateOperator():
                schemas[operator] = emitted_schema(operator, schemas)
            case op.BatchOperator(inputs=inputs):
                schemas[operator] = operator.schema([schemas[each] for each in inputs])
            case op.ToAll() | op.PlaceBy() if operator not in followed:
                schemas[operator] = schemas[operator.inputs[0]]  # a process took its part over
            case op.ColumnOperator(inputs=inputs):
                schemas[operator] = column_step(operator, [schemas[each] for each in inputs])
        with placed(operator.place):
            check_columns(schemas[operator].names)
    return schemas


def python_only(operator: op.ColumnOperator, inputs: list[pa.Schema]) -> pa.Schema:
    """The column steps that need no Spark: a union of equal columns, a select of plain ones.

    Raises:
        DeclarationError: For any other column step.
    """
    if isinstance(operator, op.Select) and operator.picked is not None:
        return picked_schema(operator, inputs[0])
    if not isinstance(operator, op.Union):
        raise DeclarationError(
            f"{operator.title} {_needs(operator)}",
            hint=f"run the module on engine='spark', or {_instead(operator)}",
            declared=operator.place,
        )
    first = inputs[0]
    wanted = {field.name: field.type for field in first}
    for other in inputs[1:]:
        if {field.name: field.type for field in other} != wanted:
            raise DeclarationError(
                "union of streams with different columns or types needs Spark",
                hint="bring the columns in line with map, or run on engine='spark'",
                declared=operator.place,
            )
    return first


def _needs(operator: op.ColumnOperator) -> str:
    """Why only Spark can run it."""
    if isinstance(operator, op.WithColumns):
        return f"computes {operator.expressions[0][1]!r}, which only Spark can"
    return "is a column step, which only Spark can run"


def _instead(operator: op.ColumnOperator) -> str:
    """What Python can do in its place."""
    if isinstance(operator, op.WithColumns) and operator.serves:
        return "compute it as a column before: map(function, emits=...)"
    if isinstance(operator, op.HashBy | op.Shuffle | op.ToGlobal | op.ToAll | op.PlaceBy):
        return "leave the step out: state steps bring rows to their key by themselves"
    return "write the step in Python: map, flat_map, where(function)"
