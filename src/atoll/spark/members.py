"""Who is in a Spark cluster: one worker per host that runs executors."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_DRIVER = "driver"
_ADDRESS = re.compile(r"(\[.*\]|[^:]*):\d+")


def members(session: SparkSession) -> dict[str, int]:
    """The hosts of the executors that are alive, each with the cores of all of its executors."""
    # Python's status tracker does not tell executors, and the public Java one not their cores.
    store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - no public way
    executors = store.executorList(True)  # noqa: FBT003 - Scala: the active ones only
    cores: Counter[str] = Counter()
    for index in range(executors.size()):
        executor = executors.apply(index)
        if executor.id() != _DRIVER:
            cores[_host(executor.hostPort())] += executor.totalCores()
    return dict(cores)


def _host(address: str) -> str:
    """Of ``host:port``; an executor that came this moment has no port yet."""
    found = _ADDRESS.fullmatch(address)
    return found[1] if found else address
