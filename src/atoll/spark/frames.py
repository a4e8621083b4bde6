"""Builds the DataFrame of one job: rows read, steps run, blobs exchanged, actors run.

Every microbatch gets a fresh plan, because a plan that runs again would reuse the exchange files
of its first run. Only the frames that merely number the tasks are kept.

Between packing and the actors there is one exchange. On one host it is Spark's. On a cluster Spark
would choose where the stage after its exchange runs, but an actor belongs where its state is; so
there the packed rows go through the shared root, and actors are tasks of a job of their own.
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
    HandedTask,
    PackTask,
    ReadTask,
    StepTask,
    told_schema,
)
from atoll.tasks.program import JobProgram, JobSpec, TaskChain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from atoll.placement.placement import Placement
    from atoll.spark.seats import Seats
    from atoll.spark.tracking import Tracking

__all__ = ["JobFrames"]


class JobFrames:
    """The frames of one job of one attempt.

    Args:
        seats: The frames that number the tasks.
        placement: Which units run the tasks.
        shipped: The program.
        job: Which of its jobs.
        spec: What this attempt reads and follows.
        operators: The topology's operators by number, for its column steps.
        columns: The columns of the operators' frames.
    """

    def __init__(  # noqa: PLR0913  # the parts are injected once, by the executor
        self,
        seats: Seats,
        placement: Placement,
        shipped: Shipped,
        job: JobProgram,
        spec: JobSpec,
        operators: Mapping[int, op.Operator],
        columns: Tracking,
    ) -> None:
        """Nothing is built yet."""
        self.seats = seats
        self.placement = placement
        self.shipped = shipped
        self.job = job
        self.spec = spec
        self.operators = operators
        self.columns = columns
        self.number = {operator: number for number, operator in operators.items()}
        self.memo: dict[op.Operator, DataFrame] = {}
        self.told: list[DataFrame] = []
        self.held: list[DataFrame] = []

    def direct(self) -> DataFrame:
        """Actors that read for themselves: one stage."""
        return self._actors().mapInArrow(DirectTask(self.shipped, self.spec), _MANIFEST_DDL)

    def exchanged(self) -> DataFrame:
        """Rows packed where they are read, exchanged by actor, then the actors: two stages."""
        exchanged = self.packed().repartitionById(len(self.placement.units), "actor")
        return exchanged.mapInArrow(ActorTask(self.shipped, self.spec), _MANIFEST_DDL)

    def handed(self, blobs: Sequence[tuple[int, bytes]]) -> DataFrame:
        """The actors, given what :meth:`packed` made: one stage."""
        by_actor: dict[int, list[bytes]] = {}
        for actor, blob in blobs:
            by_actor.setdefault(actor, []).append(blob)
        task = HandedTask(self.shipped, self.spec, by_actor)
        return self._actors().mapInArrow(task, _MANIFEST_DDL)

    def packed(self) -> DataFrame:
        """Rows packed where they are read: for each blob the number of its actor."""
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
        """The units of the source fragment in turn."""
        source = self.placement.source
        units = [source[index % len(source)] for index in range(len(self.spec.splits))]
        return self.seats.tasks(units, self.placement.hosts)

    def _actors(self) -> DataFrame:
        return self.seats.tasks(self.placement.units, self.placement.hosts)

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
            case op.Watermark(inputs=inputs):
                return self._frame(inputs[0])
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
