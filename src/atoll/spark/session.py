"""The Spark sessions that Atoll runs on, with the settings that its jobs rely on.

All listeners are bound to loopback and the web interface is off: by default Spark listens on
every interface without authentication. In local mode whoever connects must know a secret that
Spark makes for each start; on a cluster the cluster has to know it too, so there its owner says
``spark.authenticate``. Adaptive execution is off because every job has the
partitions it needs; Unix sockets between the JVM and Python save tens of milliseconds a stage.
A cancelled task's Python worker is killed after half a second: until then it may hold its stores.
Python workers are forked from a process that has imported what they need.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from atoll.errors import UsageError
from atoll.spark.jvm.java import find_java
from atoll.spark.jvm.lives import LIFE_VARIABLE, lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["cluster_session", "local_session", "other_meaning"]

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = f"-XX:+UseParallelGC -Dlog4j2.configurationFile={_LOG_SETTINGS}"
"""The parallel collector does not choke on the few large buffers of an exchange, as G1 does."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.task.killTimeout": "500ms",
    "spark.python.daemon.module": "atoll.spark.daemon",
    "spark.sql.adaptive.enabled": "false",
    # The greatest value is no limit. Any other makes Spark look at all columns' sizes at each row,
    # which takes half of the time that writing the rows takes; rows are limited by number instead.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
}


_CLUSTER_SETTINGS = {
    # An actor waits so long for its own worker; elsewhere it builds the state of its vnodes first.
    "spark.locality.wait": "1s",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
}


def local_session(parallelism: int) -> SparkSession:
    """The process's Spark session in local mode, started when there is none.

    It has twice as many slots: one for each standing task, and as many for ordinary jobs.

    Args:
        parallelism: How many units there are. A session that runs already keeps its slots.

    Raises:
        UsageError: When no Java can be found or made.
    """
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark makes a secret for each start. Without one, every user of this machine can talk to
        # the driver, and stop its executor.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.sql.shuffle.partitions": str(parallelism),
        "spark.default.parallelism": str(parallelism),
    }
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return _session(f"local[{2 * parallelism},4]", settings)


def cluster_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """The process's session on a cluster, started when there is none.

    The driver listens where the executors can reach it: on loopback when the master is there,
    else as Spark or ``spark.driver.host`` says.

    Args:
        master: ``spark://HOST:PORT``, or what else Spark takes.
        settings: Of Spark, over Atoll's own.

    Raises:
        UsageError: When no Java can be found, or Spark does not start.
    """
    host = urlsplit(master).hostname
    here = {}
    if host == "localhost" or (host or "").startswith("127."):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return _session(master, {**_CLUSTER_SETTINGS, **here, **settings})


_MEANINGS = {
    "spark.sql.ansi.enabled": ("true",),
    "spark.sql.session.timeZone": ("UTC", "Etc/UTC"),
    "spark.sql.caseSensitive": ("false",),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true",),
}
"""Settings on which the meaning of expressions depends, and with what they are certified."""


def other_meaning(session: SparkSession) -> str:
    """Which setting makes expressions mean something else than what is certified; else empty."""
    for name, values in _MEANINGS.items():
        value = session.conf.get(name)
        if value not in values:
            return f"{name} is {value}, not {values[0]}"
    return ""


def _session(master: str, settings: Mapping[str, str]) -> SparkSession:
    with lives.lock:
        os.environ.update(find_java().environment())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        folders = _let_workers_import_atoll()
        from pyspark import SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        scratch = Path(tempfile.gettempdir()) / f"atoll-spark-{os.getuid()}"
        builder = SparkSession.builder.master(master).appName("atoll")
        all_settings = {
            **_SETTINGS,
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
            "spark.executorEnv.PYTHONPATH": folders,
            f"spark.executorEnv.{LIFE_VARIABLE}": lives.token,
            **settings,
        }
        for name, value in all_settings.items():
            builder = builder.config(name, value)
        found = SparkContext._active_spark_context  # noqa: SLF001 - no public way
        try:
            session = builder.getOrCreate()
        except PySparkException as error:
            raise UsageError(
                f"Spark did not start: {error}",
                hint="what Java printed stands above this; its heap takes "
                f"{all_settings['spark.driver.memory']}: a limit may be too low (ulimit -v, the "
                "container's)",
            ) from error
        if found is None:
            lives.born(session)
        _search_no_data_sources(session)
        from atoll.spark.datasource import AtollDataSource

        session.dataSource.register(AtollDataSource)
        _quieten()
        return session


def _search_no_data_sources(session: SparkSession) -> None:
    """Tell Spark that no installed package has data sources: Atoll registers its own.

    Spark would start Python to search all packages: a second or two of each start, and a worker
    that prints a stack trace to the terminal when Spark ends it, a minute later. Its daemon cannot
    be chosen.
    """
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - no public way
    manager = "org.apache.spark.sql.execution.datasources.DataSourceManager$"
    of_java = jvm.java.lang.Class.forName(manager).getField("MODULE$").get(None)
    if not of_java.dataSourceBuilders().isDefined():
        no_sources = jvm.scala.collection.immutable.HashMap()
        getattr(of_java, "dataSourceBuilders_$eq")(jvm.scala.Option.apply(no_sources))


def _quieten() -> None:
    """No log line of every analysis error with its JVM stack: the error itself says it all."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_broken_command)  # once, however often it is called


def _is_no_broken_command(record: logging.LogRecord) -> bool:
    """Py4J logs a trace for each command that a dead JVM did not answer, and raises it as well."""
    return record.msg != "Exception while sending command."


def _let_workers_import_atoll() -> str:
    """Spark starts Python anew: name this package's folder, however this process found it.

    Returns:
        The folders that Python is to search first.
    """
    folder = str(Path(__file__).resolve().parents[2])
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if folder not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *known])
    return os.environ["PYTHONPATH"]
