"""A cluster of Spark's: executors on several hosts, one root that all of them reach.

Every host that runs executors is a worker, and so is each of several on one host that call
themselves by names of their own; its parallel units are their cores, or as many as it says.
Workers may join and leave while modules run. Each keeps the vnode stores that its actors opened in
a folder of its own (see :mod:`atoll.storage.folders`); actors run where theirs are, and what a
store lacks comes from checkpoints and logs on the root.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from atoll.cluster.cluster import Cluster
from atoll.cluster.engines import SparkEngine
from atoll.errors import AtollError, UsageError
from atoll.logs import get_logger
from atoll.placement.deploying import WorkerReport
from atoll.storage.folders import begin_on
from atoll.storage.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from atoll.cluster.app import App
    from atoll.microbatch.stepping import Observer
    from atoll.module import Module

__all__ = ["SparkCluster"]

_log = get_logger("atoll.cluster")

_LOOK_SECONDS = 0.5
_JOIN_SECONDS_MAX = 60.0
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


class SparkCluster(Cluster):
    """Runs modules on a Spark cluster; this process is the driver.

    Args:
        root: The folder of everything that lasts, at the same path on every host, or the URL of
            a place in an object store that all of them reach.
        master: ``spark://HOST:PORT``, or what else Spark takes as its master.
        settings: Of Spark: ``{"spark.executor.memory": "4g"}``.
        units_per_worker: How many parallel units each worker has that says nothing of its own; as
            many as cores when None.
        observer: Called after each numbered step of every microbatch, for tests and tools.

    Example:
        >>> with SparkCluster("/mnt/atoll", "spark://host:7077") as cluster:   # doctest: +SKIP
        ...     app = cluster.deploy(module)
        ...     app.cluster.describe()["workers"]
    """

    def __init__(
        self,
        root: Place | str,
        master: str,
        *,
        settings: Mapping[str, str] | None = None,
        units_per_worker: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Spark starts with the first deployment."""
        if units_per_worker is not None and units_per_worker < 1:
            raise UsageError(f"{units_per_worker} units cannot be", hint="use 1 or more")
        self.master = master
        self._settings = dict(settings or {})
        self._units_per_worker = units_per_worker
        self._columns: str | None = None
        folders = begin_on(root, shared=True)
        self._spark = SparkEngine(self._session, seated=True)
        super().__init__(folders, self._spark, observer)
        self._ended = threading.Event()
        self._watching: threading.Thread | None = None

    def deploy(self, module: Module, *, remove: Collection[str] = ()) -> App:
        """Check a module in full, then run it on the workers that there are.

        Args:
            module: The module.
            remove: What may go, as for every cluster.

        Raises:
            DeclarationError: When the module has a mistake; nothing has started then.
            DeployError: When the root holds a deployment of it that it does not fit.
            UsageError: When Spark does not start, or no worker joins within a minute.
        """
        self._await_workers()
        self._spread_columns()
        app = super().deploy(module, remove=remove)
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, name="atoll-workers", daemon=True)
            self._watching.start()
        return app

    def present(self) -> list[WorkerReport]:
        """The workers that run executors now."""
        from atoll.spark.members import members

        found = members(self._spark.session)
        return [
            WorkerReport(name, each.host, each.units or self._units_per_worker or each.cores)
            for name, each in sorted(found.items())
        ]

    def close(self) -> None:
        """Stop every module; Spark goes on until the process ends."""
        self._ended.set()
        if self._watching is not None:
            self._watching.join()
        super().close()

    # Inside ---------------------------------------------------------------------------------------

    def _session(self) -> SparkSession:
        from atoll.spark.session import cluster_session

        session = cluster_session(self.master, self._settings)
        if self._columns is not None:  # Spark was started anew
            session.conf.set(_SHUFFLE_PARTITIONS, self._columns)
        return session

    def _await_workers(self) -> None:
        until = time.monotonic() + _JOIN_SECONDS_MAX
        while not self.present():
            if self._ended.wait(_LOOK_SECONDS) or time.monotonic() > until:
                raise UsageError(
                    f"no worker of {self.master} runs an executor for this application",
                    hint="start workers; see that they have free cores and memory, and that they "
                    "reach this process: set spark.driver.host",
                )

    def _spread_columns(self) -> None:
        """Let exchanges within column steps have as many Spark partitions as there are units.

        Spark's own 200 would be 200 tasks in every microbatch.
        """
        if _SHUFFLE_PARTITIONS not in self._settings:
            units = sum(each.units for each in self.present())
            self._columns = str(max(1, units))
            self._spark.session.conf.set(_SHUFFLE_PARTITIONS, self._columns)

    def _watch(self) -> None:
        """Tell the modules of every change, again and again until they took it."""
        while not self._ended.wait(self.whole.look_seconds(_LOOK_SECONDS)):
            try:
                present = self.present()
                for app in list(self.apps.values()):
                    if app.fenced is None:
                        app.cluster.meet(present)
            except AtollError as error:
                _log.warning("workers changed, and a topology did not follow", error=str(error))
            except Exception as error:  # noqa: BLE001 - Spark may be ending; else it works again soon
                _log.warning("workers could not be listed", error=str(error))
