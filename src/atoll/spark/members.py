"""Who is in a Spark cluster: one worker per host that runs executors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["members"]

_DRIVER = "driver"


def members(session: SparkSession) -> dict[str, int]:
    """The hosts of the executors that are alive, each with the cores of all of its executors."""
    # Python's status tracker does not tell executors, and the public Java one not their cores.
    store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - no public way
    executors = store.executorList(True)  # noqa: FBT003 - Scala: the active ones only
    cores: Counter[str] = Counter()
    for index in range(executors.size()):
        executor = executors.apply(index)
        if executor.id() != _DRIVER:
            host, _, _ = executor.hostPort().rpartition(":")
            cores[host] += executor.totalCores()
    return dict(cores)
