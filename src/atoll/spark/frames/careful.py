"""The frames of a job of a careful attempt: column steps stand behind guards.

Where the topology sets records aside, the rows with a guard travel to an actor beside the packed
ones, as rows do that a Python step rejects. Else the first of them, in append order, is looked at
alone, and ends the attempt before anything is packed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from atoll.engine.attempt import described
from atoll.engine.exchange.careful import FIRST, Refusing
from atoll.engine.exchange.provenance import locating
from atoll.errors import AtollError
from atoll.microbatch.executor import AttemptError
from atoll.spark.analysis import spark_schema
from atoll.spark.frames.guarding import GUARD, guard_of, problem_alone
from atoll.spark.frames.job import JobFrames
from atoll.spark.tasks import BLOB_SCHEMA, RefuseTask
from atoll.steps.columns.guards import Guarded
from atoll.steps.columns.join import Join
from atoll.topology.operator import ColumnOperator
from atoll.topology.rows import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row

    from atoll.engine.program import JobSpec, Program


class Looking(NamedTuple):
    """What a careful attempt looks for bad rows with."""

    program: Program
    spec: JobSpec
    collect: Callable[[DataFrame], list[Row]]
    told: set[tuple[int, int]]
    """The steps, and which of their inputs, whose bad rows jobs of the attempt have told."""


class CarefulFrames(JobFrames):
    """As :class:`JobFrames`, for one job of one attempt."""

    looking: Looking

    def _columned(self, operator: ColumnOperator, frames: Sequence[DataFrame]) -> DataFrame:
        if isinstance(operator, Join):
            frames = [frame.alias(side) for frame, side in zip(frames, Join.SIDES, strict=True)]
        guarded = [self._guarded(operator, frame, at) for at, frame in enumerate(frames)]
        return super()._columned(operator, guarded)

    def _guarded(self, operator: ColumnOperator, frame: DataFrame, at: int) -> DataFrame:
        """The rows on which no expression of the step fails; the others go their own way.

        What both come from is held, so that the steps before it run once; and so are the good
        rows, or Spark would draw conclusions of the steps after it, such as that a column is not
        null, down to the bad ones.
        """
        found = guard_of(operator, frame, at)
        if found is None:
            return frame
        guarded, failing, values = found
        marked = frame.withColumn(GUARD, failing).persist()
        self.held.append(marked)
        bad = marked.where(f"{GUARD} IS NOT NULL")
        if self.looking.program.dead_letter is None:
            self._name_first(guarded, bad, values)
        elif (self.number[operator], at) not in self.looking.told:
            self.looking.told.add((self.number[operator], at))
            task = RefuseTask(self.shipped, guarded, self.number[operator], at)
            self.told.append(bad.mapInArrow(task, spark_schema(BLOB_SCHEMA)))
        good = marked.where(f"{GUARD} IS NULL").drop(GUARD).persist()
        self.held.append(good)
        return good

    def _name_first(self, guarded: Guarded, bad: DataFrame, values: Sequence[Column]) -> None:
        """Raise for the first bad row, if there is any, with what Spark says of it."""
        if ORIGIN in bad.columns:
            bad = bad.orderBy(ORIGIN)
        rows = self.looking.collect(bad.limit(1))
        if not rows:
            return
        row: Any = rows[0]
        alone = bad.sparkSession.createDataFrame(rows, bad.schema)
        error = guarded.error(row[GUARD], row, problem_alone(alone, values[row[GUARD]]))
        table = alone.toArrow().drop_columns([GUARD])
        try:
            with locating(self.looking.program, self.looking.spec):
                Refusing(guarded, FIRST).refuse(table, 0, error)
        except AtollError as named:
            raise AttemptError(described(named)) from named
