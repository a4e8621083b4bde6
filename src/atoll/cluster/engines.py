"""What runs a topology's attempts: Spark, or the calling process itself.

Everything else of a cluster is the same for both. Spark is imported when it is used, so that the
inline engine starts in a fraction of a second and needs no Java.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from atoll.engine.inline import InlineExecutor
from atoll.errors import DeclarationError, UsageError
from atoll.steps.columns.schemas import ColumnStep, python_steps, schemas_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.engine.attempt import BlockSource
    from atoll.microbatch.executor import Executor
    from atoll.topology.graph import Graph
    from atoll.topology.operator import ColumnOperator, Operator


EngineName = Literal["spark", "inline", "auto"]


class Engine(Protocol):
    """What a cluster asks of its engine."""

    def schemas(self, graph: Graph) -> dict[Operator, pa.Schema]:
        """The columns after each operator of a topology."""

    def other_meaning(self, graph: Graph) -> str:
        """Why expressions mean something else there than what is certified; else empty."""

    def executor(self, bound: BoundTopology, depots: Mapping[str, BlockSource]) -> Executor:
        """What runs the attempts of a topology."""

    def dataframe(self, options: Mapping[str, str]) -> DataFrame:
        """A PState as a DataFrame; the options are those of the ``atoll`` data source."""


def engine_named(name: EngineName, parallelism: int, session: SparkSession | None) -> Engine:
    """The engine of that name.

    Raises:
        DeclarationError: When there is none.
    """
    match name:
        case "spark":
            return SparkEngine(lambda: session or _local_session(parallelism))
        case "inline":
            return InlineEngine()
        case "auto":
            return AutoEngine(SparkEngine(lambda: session or _local_session(parallelism)))
    raise DeclarationError(f"there is no engine {name!r}", hint="use 'spark', 'inline' or 'auto'")


def _local_session(parallelism: int) -> SparkSession:
    from atoll.spark.session import local_session

    return local_session(parallelism)


class SparkEngine:
    """Spark, started when it is first used.

    Args:
        start: Gives the session.
        seated: Whether tasks want to run on the host of their unit: on a cluster.
    """

    def __init__(self, start: Callable[[], SparkSession], *, seated: bool = False) -> None:
        self._start = start
        self._session: SparkSession | None = None
        self._seated = seated

    @property
    def session(self) -> SparkSession:
        """The running session: another one when the JVM of the one before has died.

        Raises:
            SparkLostError: When that one was not Atoll's own, or Spark died too often lately.
            UsageError: When Spark does not start.
        """
        from atoll.spark.jvm.lives import lives, not_ours

        with lives.lock:
            if self._session is not None and lives.is_dead(self._session):
                lives.bury(self._session)
                self._session = None
            if self._session is None:
                session = self._start()
                if lives.is_dead(session):
                    raise not_ours()
                self._session = session
            return self._session

    def schemas(self, graph: Graph) -> dict[Operator, pa.Schema]:
        """The columns as Spark's analyzer finds them."""
        from atoll.spark.analysis import resolve

        return resolve(self.session, graph)

    def other_meaning(self, graph: Graph) -> str:  # noqa: ARG002  # the session's
        """What of the session's settings changes what expressions mean."""
        from atoll.spark.session import other_meaning

        return other_meaning(self.session)

    def executor(self, bound: BoundTopology, depots: Mapping[str, BlockSource]) -> Executor:
        """Attempts as Spark jobs."""
        from atoll.spark.executor import SparkExecutor

        return SparkExecutor(
            lambda: self.session,
            bound.program,
            bound.declared.graph,
            bound.cut,
            bound.schemas,
            depots,
            bound.options,
            seated=self._seated,
        )

    def dataframe(self, options: Mapping[str, str]) -> DataFrame:
        """Read through the data source."""
        return self.session.read.format("atoll").options(**options).load()


class InlineEngine:
    """The calling process: Python steps and state steps, no Spark."""

    def schemas(self, graph: Graph) -> dict[Operator, pa.Schema]:
        """The columns, without column steps."""
        return schemas_of(graph, python_steps(graph))

    def other_meaning(self, graph: Graph) -> str:  # noqa: ARG002  # there are no settings
        """Nothing."""
        return ""

    def executor(self, bound: BoundTopology, depots: Mapping[str, BlockSource]) -> Executor:
        """Attempts in a thread of this process."""
        return InlineExecutor(bound.program, bound.cut, depots)

    def dataframe(self, options: Mapping[str, str]) -> DataFrame:
        """Refused: there is no Spark here.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "the inline engine has no DataFrames",
            hint="use pstate(...).select(...), or run the module on engine='spark'",
            pstate=options.get("pstate", ""),
        )


class AutoEngine:
    """For each topology the calling process where it can run it, and Spark where it cannot.

    Args:
        spark: Started by the first topology with a step that only Spark can run.
    """

    def __init__(self, spark: SparkEngine) -> None:
        self._spark = spark
        self._inline = InlineEngine()
        self._on_spark: weakref.WeakSet[Graph] = weakref.WeakSet()

    def schemas(self, graph: Graph) -> dict[Operator, pa.Schema]:
        """The columns; which engine runs the topology is decided here."""
        try:
            return schemas_of(graph, _without_spark(python_steps(graph)))
        except _NeedsSparkError:
            self._on_spark.add(graph)
            return self._spark.schemas(graph)

    def other_meaning(self, graph: Graph) -> str:
        """As the engine that runs the topology."""
        return self._of(graph).other_meaning(graph)

    def executor(self, bound: BoundTopology, depots: Mapping[str, BlockSource]) -> Executor:
        """Attempts in the calling process, or as Spark jobs."""
        return self._of(bound.declared.graph).executor(bound, depots)

    def _of(self, graph: Graph) -> SparkEngine | InlineEngine:
        return self._spark if graph in self._on_spark else self._inline

    def dataframe(self, options: Mapping[str, str]) -> DataFrame:
        """Read through Spark, which starts for it."""
        return self._spark.dataframe(options)


class _NeedsSparkError(Exception):
    """A column step that Python alone cannot run."""


def _without_spark(step: ColumnStep) -> ColumnStep:
    def column_step(operator: ColumnOperator, inputs: list[pa.Schema]) -> pa.Schema:
        try:
            return step(operator, inputs)
        except DeclarationError:
            raise _NeedsSparkError from None

    return column_step
