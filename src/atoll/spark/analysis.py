"""Resolves the columns after every operator, by Spark's own analyzer over empty frames.

Column steps are Spark SQL, so only Spark can say what they yield. It analyses the same plan that
it will run, so an unknown column or a wrong type is found when a module is deployed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.errors import AtollError, DeclarationError
from atoll.steps.columns.schemas import schemas_of
from atoll.topology.operator import ColumnOperator, Operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from atoll.topology.graph import Graph


_MESSAGE_LINES_MAX = 3


def resolve(session: SparkSession, graph: Graph) -> dict[Operator, pa.Schema]:
    """The columns after each operator of a topology.

    Raises:
        DeclarationError: When a step names a column that is not there or mixes types.
    """

    def column_step(operator: ColumnOperator, inputs: list[pa.Schema]) -> pa.Schema:
        return _after(operator, [empty_frame(session, each) for each in inputs])

    return schemas_of(graph, column_step)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's schema for Arrow's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Arrow's schema for Spark's; instants in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def empty_frame(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """A frame without rows."""
    return session.createDataFrame([], spark_schema(schema))


def _after(operator: ColumnOperator, frames: list[DataFrame]) -> pa.Schema:
    try:
        frame: Any = operator.apply(frames, 1)
        return _distinct(arrow_schema(frame.schema), operator)
    except AtollError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        columns = "; and ".join(", ".join(frame.columns) for frame in frames)
        message, _, _ = " ".join(lines[:_MESSAGE_LINES_MAX]).partition(" SQLSTATE: ")
        raise DeclarationError(
            f"{operator.title}: {message}",
            hint=f"the rows before it have the columns {columns}",
            declared=operator.place,
        ) from error


def _distinct(schema: pa.Schema, operator: Operator) -> pa.Schema:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise DeclarationError(
            f"{operator.title} makes more than one column {twice[0]!r}",
            hint="give each a name of its own: AS other_name",
            declared=operator.place,
        )
    return schema
