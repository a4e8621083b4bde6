"""Lets column steps pass on the hidden column that says which record a row came from.

Expressions of users must never meet that column, so a step that could (``struct(*)``, any DataFrame
code) loses it, and the rows after it no longer know their record. Which steps keep it is found
once per deployment, by Spark's own analyzer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.spark.analysis import empty_frame
from atoll.topology.operator import ColumnOperator, Operator, RootOperator, StateOperator
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Tracking:
    """The columns of a topology's frames, with the hidden one.

    Args:
        session: Whose analyzer is asked.
        tracked: The operators whose rows should carry it.
        schemas: The columns after each operator, as users see them.
    """

    def __init__(
        self,
        session: SparkSession,
        tracked: Collection[Operator],
        schemas: Mapping[Operator, pa.Schema],
    ) -> None:
        """Ask the analyzer, if anything is to be tracked."""
        self.schemas = schemas
        self.carrying: set[Operator] = set()
        for operator in schemas:
            if operator in tracked and self._carries(session, operator):
                self.carrying.add(operator)

    def schema(self, operator: Operator) -> pa.Schema:
        """The columns of an operator's frame."""
        schema = self.schemas[operator]
        return schema.append(ORIGIN_FIELD) if operator in self.carrying else schema

    def apply(
        self, operator: ColumnOperator, frames: Sequence[DataFrame], parallelism: int
    ) -> DataFrame:
        """The frame after a column step."""
        step: ColumnOperator | None = operator
        if operator in self.carrying:
            step = self._passing(operator)
            if operator.unites:
                frames = [_with_origin(each) for each in frames]
        else:
            frames = [each.drop(ORIGIN) if ORIGIN in each.columns else each for each in frames]
        assert step is not None
        frame: DataFrame = step.apply(frames, parallelism)
        return frame

    def _carries(self, session: SparkSession, operator: Operator) -> bool:
        if isinstance(operator, StateOperator):
            return operator.keeps_records
        if isinstance(operator, RootOperator):
            return True
        if not any(each in self.carrying for each in operator.inputs):
            return False
        return not isinstance(operator, ColumnOperator) or self._keeps(session, operator)

    def _keeps(self, session: SparkSession, operator: ColumnOperator) -> bool:
        """Whether the step passes the column on and makes the same of all others."""
        step = self._passing(operator)
        if step is None:
            return False
        frames = [empty_frame(session, self.schema(each)) for each in operator.inputs]
        if step.unites:
            frames = [_with_origin(each) for each in frames]
        try:
            columns: list[str] = step.apply(frames, 1).columns
        except Exception:  # noqa: BLE001  # it stands no further column: an aggregate, say
            return False
        return sorted(columns) == sorted([*self.schemas[operator].names, ORIGIN])

    def _passing(self, operator: ColumnOperator) -> ColumnOperator | None:
        """The step as it passes the column on; None when it cannot be trusted to."""
        return operator.carrying(ORIGIN, self.schemas[operator.inputs[0]].names)


def _with_origin(frame: Any) -> Any:
    if ORIGIN in frame.columns:
        return frame
    return frame.selectExpr("*", f"cast(NULL AS bigint) AS {ORIGIN}")
