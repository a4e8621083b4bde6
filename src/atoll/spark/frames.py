"""Builds the DataFrame of one job: rows read, steps run, blobs exchanged, actors run.

Every microbatch gets a fresh plan, because a plan that runs again would reuse the exchange files
of its first run. Only the frames that merely number the tasks are kept.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from atoll.dataflow import operators as op
from atoll.spark.analysis import spark_schema
from atoll.spark.shipping import Shipped
from atoll.spark.tasks import (
    BLOB_SCHEMA,
    MANIFEST_SCHEMA,
    TOLD,
    ActorTask,
    DirectTask,
    PackTask,
    ReadTask,
    StepTask,
    told_schema,
)
from atoll.tasks.program import JobProgram, JobSpec, TaskChain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from atoll.spark.tracking import Tracking

__all__ = ["JobFrames", "Numbers"]


class Numbers:
    """Frames of one row per task, the task's number; made once per count and session."""

    def __init__(self, session: SparkSession) -> None:
        """Nothing is made yet."""
        self.session = session
        self._frames: dict[int, DataFrame] = {}

    def upto(self, count: int) -> DataFrame:
        """``count`` Spark partitions, each with the one row that is its index."""
        if count not in self._frames:
            self._frames[count] = self.session.range(0, count, 1, count)
        return self._frames[count]


class JobFrames:
    """The frames of one job of one attempt.

    Args:
        numbers: The task-numbering frames.
        shipped: The program.
        job: Which of its jobs.
        spec: What this attempt reads and follows.
        operators: The topology's operators by number, for its column steps.
        columns: The columns of the operators' frames.
    """

    def __init__(
        self,
        numbers: Numbers,
        shipped: Shipped,
        job: JobProgram,
        spec: JobSpec,
        operators: Mapping[int, op.Operator],
        columns: Tracking,
    ) -> None:
        """Nothing is built yet."""
        self.numbers = numbers
        self.shipped = shipped
        self.job = job
        self.spec = spec
        self.operators = operators
        self.columns = columns
        self.number = {operator: number for number, operator in operators.items()}
        self.memo: dict[op.Operator, DataFrame] = {}
        self.told: list[DataFrame] = []
        self.held: list[DataFrame] = []

    def direct(self, actors: int) -> DataFrame:
        """Actors that read for themselves: one stage."""
        return self.numbers.upto(actors).mapInArrow(
            DirectTask(self.shipped, self.spec), _MANIFEST_DDL
        )

    def exchanged(self, actors: int) -> DataFrame:
        """Rows packed where they are read, exchanged by actor, then the actors: two stages."""
        exchanged = self._packed().repartitionById(actors, "actor")
        return exchanged.mapInArrow(ActorTask(self.shipped, self.spec), _MANIFEST_DDL)

    def _packed(self) -> DataFrame:
        roots = {c.origin for c in self.job.chains if self._is_root(c)}
        frames = []
        if roots:
            task = PackTask(self.shipped, self.spec, frozenset(roots), reads=True)
            frames.append(self._readers().mapInArrow(task, _BLOB_DDL))
        columns = {c.origin for c in self.job.chains if not self._is_root(c)}
        for origin in sorted(columns):
            task = PackTask(self.shipped, self.spec, frozenset({origin}), reads=False)
            frames.append(self._frame(self.operators[origin]).mapInArrow(task, _BLOB_DDL))
        frames.extend(self.told)
        return functools.reduce(lambda one, other: one.unionAll(other), frames)

    def _readers(self) -> DataFrame:
        return self.numbers.upto(len(self.spec.splits))

    def _is_root(self, chain: TaskChain) -> bool:
        return isinstance(self.operators[chain.origin], op.RootOperator | op.StateOperator)

    def _frame(self, operator: op.Operator) -> DataFrame:
        """The rows after an operator as a DataFrame."""
        if operator not in self.memo:
            self.memo[operator] = self._build(operator)
        return self.memo[operator]

    def _build(self, operator: op.Operator) -> DataFrame:
        match operator:
            case op.RootOperator() | op.StateOperator():
                schema = self.columns.schema(operator)
                task = ReadTask(self.shipped, self.spec, self.number[operator], schema)
                return self._readers().mapInArrow(task, spark_schema(schema))
            case op.BatchOperator(inputs=inputs):
                return self._stepped(operator, self._frame(inputs[0]))
            case op.ColumnOperator(inputs=inputs):
                frames = [self._frame(each) for each in inputs]
                return self.columns.apply(operator, frames, len(self.spec.splits))
        raise AssertionError(operator)

    def _stepped(self, operator: op.BatchOperator, frame: DataFrame) -> DataFrame:
        """The frame after a Python step; rows that it rejects are put aside.

        Then the frame is held while the job runs: its good rows and what it tells are read apart,
        and the step must not run once for each.
        """
        chain = TaskChain(-1, self.columns.schemas[operator.inputs[0]], (operator,), ())
        tracked = operator in self.columns.carrying
        reports = self.number[operator] in self.job.reporting
        task = StepTask(self.shipped, self.spec, chain, tracked, reports)
        if not reports:
            return frame.mapInArrow(task, spark_schema(self.columns.schema(operator)))
        schema = told_schema(self.columns.schemas[operator], tracked=tracked)
        both = frame.mapInArrow(task, spark_schema(schema)).persist()
        self.held.append(both)
        told = both.where(f"{TOLD} IS NOT NULL")
        self.told.append(told.selectExpr("cast(0 AS int) AS actor", f"{TOLD} AS blob"))
        return both.where(f"{TOLD} IS NULL").drop(TOLD)

    def release(self) -> None:
        """Let go of what was held while the job ran."""
        for frame in self.held:
            frame.unpersist()


_BLOB_DDL = spark_schema(BLOB_SCHEMA)
_MANIFEST_DDL = spark_schema(MANIFEST_SCHEMA)
