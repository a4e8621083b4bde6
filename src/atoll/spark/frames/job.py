"""Builds the DataFrames of a job: rows read, steps run, blobs exchanged, actors run.

A job's frames are the same for every microbatch that has as many reading tasks, for what a
microbatch reads is handed to the tasks beside them. Each run is a query of its own over them:
one that ran again would reuse the exchange files of its first run.

Between packing and the actors there is one exchange. On one host it is Spark's. On a cluster Spark
would choose where the stage after its exchange runs, but an actor belongs where its state is; so
there the packed rows go through the shared root, and actors are tasks of a job of their own.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.engine.exchange.waybills import column_origins
from atoll.engine.program import JobProgram, TaskChain
from atoll.spark.analysis import spark_schema
from atoll.spark.frames.pruning import columns_used, lasts
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
    reader_name,
    told_schema,
)
from atoll.steps.columns.transform import Transform
from atoll.topology.expressions import quoted
from atoll.topology.operator import (
    BatchOperator,
    ColumnOperator,
    Operator,
    RootOperator,
    StateOperator,
)
from atoll.topology.rows import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from atoll.placement.placement import Placement
    from atoll.spark.frames.seats import Seats
    from atoll.spark.frames.tracking import Tracking


class JobFrames:
    """The frames of one job.

    Args:
        seats: The frames that number the tasks.
        placement: Which units run the tasks.
        shipped: The program.
        job: Which of its jobs.
        reading_tasks: How many tasks read.
        operators: The topology's operators by number, for its column steps.
        columns: The columns of the operators' frames.
    """

    def __init__(  # noqa: PLR0913  # the parts are injected once, by the executor
        self,
        seats: Seats,
        placement: Placement,
        shipped: Shipped,
        job: JobProgram,
        reading_tasks: int,
        operators: Mapping[int, Operator],
        columns: Tracking,
    ) -> None:
        self.seats = seats
        self.placement = placement
        self.shipped = shipped
        self.job = job
        self.reading_tasks = reading_tasks
        self.operators = operators
        self.columns = columns
        self.number = {operator: number for number, operator in operators.items()}
        self.used: dict[str, frozenset[str]] = {}
        self.memo: dict[Operator, DataFrame] = {}
        self.told: list[DataFrame] = []
        self.held: list[DataFrame] = []
        self.lasting = False
        """Whether other microbatches can use what was built; not before it is."""

    def direct(self) -> DataFrame:
        """Actors that read for themselves: one stage."""
        return self._direct.alias(_RUN)

    def exchanged(self) -> DataFrame:
        """Rows packed where they are read, exchanged by actor, then the actors: two stages."""
        return self._exchanged.alias(_RUN)

    def packed(self) -> DataFrame:
        """Rows packed where they are read: for each blob the number of its actor."""
        return self._packed.alias(_RUN)

    def handed(self, blobs: Sequence[tuple[int, bytes]]) -> DataFrame:
        """The actors, given what :meth:`packed` made: one stage."""
        by_actor: dict[int, list[bytes]] = {}
        for actor, blob in blobs:
            by_actor.setdefault(actor, []).append(blob)
        return self._actors().mapInArrow(HandedTask(self.shipped, by_actor), _MANIFEST_DDL)

    @functools.cached_property
    def _direct(self) -> DataFrame:
        self.lasting = True
        return self._actors().mapInArrow(DirectTask(self.shipped), _MANIFEST_DDL)

    @functools.cached_property
    def _exchanged(self) -> DataFrame:
        exchanged = self._packed.repartitionById(len(self.placement.units), "actor")
        return exchanged.mapInArrow(ActorTask(self.shipped), _MANIFEST_DDL)

    @functools.cached_property
    def _packed(self) -> DataFrame:
        frames = []
        roots = {c.origin for c in self.job.chains if c.reads}
        if roots:
            task = PackTask(self.shipped, frozenset(roots), 0)
            frames.append(self._readers().mapInArrow(task, _BLOB_DDL))
        origins = column_origins(self.job)
        for part, (origin, rows) in enumerate(
            zip(origins, self._columns(origins), strict=True), start=1
        ):
            task = PackTask(self.shipped, frozenset({origin}), part)
            frames.append(rows.mapInArrow(task, _BLOB_DDL))
        frames.extend(self.told)
        return functools.reduce(lambda one, other: one.unionAll(other), frames)

    def _columns(self, origins: Sequence[int]) -> list[DataFrame]:
        """What the chains of these origins take of their rows."""
        self.lasting = False  # should a function raise in it
        frames = [self._taken(origin) for origin in origins]
        called = any(isinstance(each, Transform) for each in self.memo)
        self.lasting = not self.held and not called and all(map(lasts, frames))
        if not self.lasting:
            return frames
        self.used = columns_used(frames, [reader_name(number) for number in self.operators])
        if not self.used:
            return frames
        self.memo.clear()
        return [self._taken(origin) for origin in origins]

    def _taken(self, origin: int) -> DataFrame:
        frame = self._frame(self.operators[origin])
        chains = [each for each in self.job.chains if each.origin == origin]
        needed = self.job.columns_needed(chains)
        if needed is None:
            return frame
        kept = [name for name in frame.columns if name in needed or name == ORIGIN]
        return frame.select(*map(quoted, kept or frame.columns[:1]))

    def _readers(self) -> DataFrame:
        """The units of the source fragment in turn."""
        source = self.placement.source
        units = [source[index % len(source)] for index in range(self.reading_tasks)]
        return self.seats.tasks(units, self.placement.workers)

    def _actors(self) -> DataFrame:
        return self.seats.tasks(self.placement.units, self.placement.workers)

    def _frame(self, operator: Operator) -> DataFrame:
        """The rows after an operator as a DataFrame."""
        if operator not in self.memo:
            self.memo[operator] = self._build(operator)
        return self.memo[operator]

    def _build(self, operator: Operator) -> DataFrame:
        match operator:
            case RootOperator() | StateOperator():
                schema = self.columns.schema(operator)
                task = ReadTask(self.shipped, self.number[operator])
                used = self.used.get(task.__name__)
                if used is not None:
                    task = replace(task, used=used)
                    schema = task.pruned(schema)
                return self._readers().mapInArrow(task, spark_schema(schema))
            case BatchOperator(inputs=inputs) if operator.passes:
                return self._frame(inputs[0])
            case BatchOperator(inputs=inputs):
                return self._stepped(operator, self._frame(inputs[0]))
            case ColumnOperator(inputs=inputs):
                frames = [self._frame(each) for each in inputs]
                return self._columned(operator, frames)
        raise AssertionError(operator)

    def _columned(self, operator: ColumnOperator, frames: Sequence[DataFrame]) -> DataFrame:
        return self.columns.apply(operator, frames, self.reading_tasks)

    def _stepped(self, operator: BatchOperator, frame: DataFrame) -> DataFrame:
        """The frame after a Python step; rows that it rejects are put aside.

        Then the frame is held while the job runs: its good rows and what it tells are read apart,
        and the step must not run once for each.
        """
        chain = TaskChain(
            -1,
            self.columns.schemas[operator.inputs[0]],
            (operator,),
            (),
            (self.number[operator],),
        )
        tracked = operator in self.columns.carrying
        reports = self.number[operator] in self.job.reporting
        task = StepTask(self.shipped, chain, tracked, reports)
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


_RUN = "run"
_BLOB_DDL = spark_schema(BLOB_SCHEMA)
_MANIFEST_DDL = spark_schema(MANIFEST_SCHEMA)
