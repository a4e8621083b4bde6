"""A cluster on this machine: an engine in this process, everything else in one folder.

The folder holds all that lasts (depots, plans, commits, logs) and a part that is only a cache of
it (``local/``). A cluster that is started again on the same folder goes on where it stopped.
"""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from atoll.cluster.cluster import Cluster
from atoll.cluster.engines import EngineName, engine_named
from atoll.errors import AtollError, DeclarationError, NotFoundError, UsageError
from atoll.placement.deploying import WorkerReport
from atoll.placement.limits import LOCAL_WORKER, UNITS_MAX
from atoll.storage.folders import begin_on
from atoll.storage.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from atoll.microbatch.stepping import Observer

__all__ = ["LocalCluster"]


class LocalCluster(Cluster):
    """Runs modules in this process, on Spark in local mode or without Spark.

    Args:
        root: The folder of everything that lasts, or the URL of a place in an object store
            (``s3://BUCKET/PREFIX``); a temporary folder, removed by :meth:`close`,
            when None.
        parallelism: How many actors each topology has.
        engine: ``spark``, or ``inline``: attempts run in this process, without Spark and Java;
            for modules of Python steps and state steps only. ``auto`` is inline where it can be.
        session: A Spark session to use instead of the process's own.
        observer: Called after each numbered step of every microbatch, for tests and tools.
        units: How many parallel units this process has; as many as ``parallelism`` when None.
            :meth:`set_units` changes it.

    Example:
        >>> with LocalCluster() as cluster:          # doctest: +SKIP
        ...     app = cluster.deploy(module)
        ...     app.depot("numbers").append([{"v": 1}])
    """

    def __init__(
        self,
        root: Place | str | None = None,
        *,
        parallelism: int = 2,
        engine: EngineName = "spark",
        session: SparkSession | None = None,
        observer: Observer | None = None,
        units: int | None = None,
    ) -> None:
        """Spark starts with the first deployment."""
        if parallelism < 1:
            raise DeclarationError(f"parallelism {parallelism} cannot be", hint="use 1 or more")
        if units is not None and units < 1:
            raise DeclarationError(f"{units} units cannot be", hint="use 1 or more")
        self._temporary = root is None
        place = tempfile.mkdtemp(prefix="atoll-") if root is None else root
        folders = begin_on(place, shared=False)
        super().__init__(folders, engine_named(engine, parallelism, session), observer)
        self.parallelism = parallelism
        self._workers = {LOCAL_WORKER: parallelism if units is None else units}

    def present(self) -> list[WorkerReport]:
        """This process, and the workers that exist by name only."""
        return [WorkerReport(name, "127.0.0.1", units) for name, units in self._workers.items()]

    def close(self) -> None:
        """Stop every module; remove the folder if it was a temporary one."""
        try:
            super().close()
        finally:
            if self._temporary:
                shutil.rmtree(str(self.root), ignore_errors=True)

    def set_units(self, units: int) -> None:
        """Give this process so many parallel units from now on, while its modules run.

        Every topology goes where its policy wants it then: one that asked for more units than
        there were takes those that came, and what ran on one that goes is moved first. A microbatch
        that runs ends where it began. Until this process ends: the next one has as many as it is
        started with.

        Args:
            units: How many there are from now on, 1 to 1024. They share this machine's cores.

        Raises:
            UsageError: When there cannot be so many.
            FencedError: When another process runs a module by now; the others have them all the
                same.
        """
        if not 1 <= units <= UNITS_MAX:
            raise UsageError(f"{units} units cannot be", hint=f"give 1 to {UNITS_MAX}")
        with self._deploying.lock:
            self._workers[LOCAL_WORKER] = units
            self._tell()

    def add_worker(self, name: str, units: int) -> None:
        """Let a worker join that exists by name only: its actors run in this process too.

        For trying out and testing what happens when workers join.
        """
        self._workers[name] = units
        self._tell()

    def lose_worker(self, name: str) -> None:
        """Let a worker be gone; its actors' vnodes go to the others.

        Raises:
            NotFoundError: When there is no such worker.
        """
        if name not in self._workers:
            raise NotFoundError(
                f"there is no worker {name!r}", hint="there are " + ", ".join(self._workers)
            )
        del self._workers[name]
        self._tell()

    def _tell(self) -> None:
        """Let every module that runs here meet the workers that there are now."""
        failed: AtollError | None = None
        for app in list(self.apps.values()):
            try:
                app.cluster.meet(self.present())
            except AtollError as error:  # the others meet them all the same
                failed = error
        if failed is not None:
            raise failed
