"""Lets column steps pass on the hidden column that says which record a row came from.

Expressions of users must never meet that column, so a step that could (``struct(*)``, any DataFrame
code) loses it, and the rows after it no longer know their record. Which steps keep it is found
once per deployment, by Spark's own analyzer.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from atoll.spark.analysis import empty_frame
from atoll.steps.changes.declare import Changes
from atoll.steps.columns.distinct import Distinct
from atoll.steps.columns.explode import Explode
from atoll.steps.columns.group_agg import GroupAgg
from atoll.steps.columns.join import Join
from atoll.steps.columns.select import Select
from atoll.steps.columns.transform import Transform
from atoll.steps.columns.union import Union
from atoll.steps.columns.where import Where
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.distinct_count.declare import FirstSeen
from atoll.steps.exchanges.hash_by import HashBy
from atoll.steps.exchanges.place_by import PlaceBy
from atoll.steps.fold.declare import Fold
from atoll.steps.incremental_join.declare import IncrementalJoin
from atoll.steps.windows.declare import WindowAgg
from atoll.topology.expressions import quoted
from atoll.topology.operator import ColumnOperator, Operator, RootOperator, StateOperator
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_STAR = re.compile(r"(?:^|[(,]|\bdistinct\b)\s*\*", re.IGNORECASE)
"""A star that means all columns; at worst it is found in a text, and the origin is lost."""


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
            if isinstance(operator, Union):
                frames = [_with_origin(each) for each in frames]
        else:
            frames = [each.drop(ORIGIN) if ORIGIN in each.columns else each for each in frames]
        assert step is not None
        frame: DataFrame = step.apply(frames, parallelism)
        return frame

    def _carries(self, session: SparkSession, operator: Operator) -> bool:
        match operator:
            case Changes() | Fold() | WindowAgg() | FirstSeen() | IncrementalJoin():
                return False
            case RootOperator() | StateOperator():
                return True
            case ColumnOperator(inputs=inputs):
                if not any(each in self.carrying for each in inputs):
                    return False
                return self._keeps(session, operator)
        return operator.inputs[0] in self.carrying

    def _keeps(self, session: SparkSession, operator: ColumnOperator) -> bool:
        """Whether the step passes the column on and makes the same of all others."""
        step = self._passing(operator)
        if step is None:
            return False
        frames = [empty_frame(session, self.schema(each)) for each in operator.inputs]
        if isinstance(step, Union):
            frames = [_with_origin(each) for each in frames]
        try:
            columns: list[str] = step.apply(frames, 1).columns
        except Exception:  # noqa: BLE001  # it stands no further column: an aggregate, say
            return False
        return sorted(columns) == sorted([*self.schemas[operator].names, ORIGIN])

    def _passing(self, operator: ColumnOperator) -> ColumnOperator | None:
        """The step as it passes the column on; None when it cannot be trusted to."""
        match operator:
            case Select(expressions=expressions):
                visible = [quoted(name) for name in self.schemas[operator.inputs[0]].names]
                wanted: list[str] = []
                for each in expressions:
                    wanted.extend(visible if each.strip() == "*" else [each])
                if _has_star(wanted):
                    return None
                return dataclasses.replace(operator, expressions=(*wanted, ORIGIN))
            case Where(condition=text) | Explode(expression=text):
                return None if _has_star([text]) else operator
            case WithColumns(expressions=pairs):
                return None if _has_star([text for _, text in pairs]) else operator
            case HashBy(expressions=texts):
                return None if _has_star(texts) else operator
            case PlaceBy(expression=text):
                return None if _has_star([text]) else operator
            case Join() | GroupAgg() | Distinct():
                return None  # a row of theirs is no record's
            case Transform(function=function):
                return operator if getattr(function, "keeps_origins", False) else None
        return operator


def _has_star(expressions: Sequence[str]) -> bool:
    return any(_STAR.search(each) for each in expressions)


def _with_origin(frame: Any) -> Any:
    if ORIGIN in frame.columns:
        return frame
    return frame.selectExpr("*", f"cast(NULL AS bigint) AS {ORIGIN}")
