"""Who is in a Spark cluster, as its executors report.

A worker is a host that runs executors, or what calls itself otherwise: Spark's worker passes its
environment on to its executors, and an executor tells the driver, as it registers, every variable
that begins with ``SPARK_EXECUTOR_ATTRIBUTE_``. So a worker says its name, by which several on one
host are told apart, and how many parallel units it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.logs import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WORKER, UNITS = "ATOLL_WORKER", "ATOLL_UNITS"
"""What executors report: their worker's name, and how many units it has."""

VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_{}"
"""The variable of a worker's environment in which it is set."""

_DRIVER = "driver"
_ADDRESS = re.compile(r"(\[.*\]|[^:]*):\d+")
_log = get_logger("atoll.spark")


@dataclass(frozen=True)
class Member:
    """A worker.

    Attributes:
        name: What it calls itself; its host unless it does.
        host: Where it is.
        cores: Those of all its executors.
        units: How many parallel units it says that it has; None when it says nothing.
        executors: Their ids at Spark.
        alone: Whether its host runs no other worker's executors.
    """

    name: str
    host: str
    cores: int
    units: int | None = None
    executors: tuple[str, ...] = ()
    alone: bool = True

    @property
    def places(self) -> tuple[str, ...]:
        """What Spark calls a preferred location: its host, or each executor if it shares that."""
        if self.alone:
            return (self.host,)
        return tuple(f"executor_{self.host}_{each}" for each in self.executors)


@dataclass(frozen=True)
class _Executor:
    id: str
    host: str
    cores: int
    name: str
    units: str | None


def members(session: SparkSession) -> dict[str, Member]:
    """The workers whose executors are alive, by name.

    A name belongs to the host whose executor came first with it; what bears it on another one is
    said, and not counted.
    """
    by_name: dict[str, list[_Executor]] = {}
    for each in sorted(_executors(session), key=lambda each: int(each.id)):
        known = by_name.setdefault(each.name, [])
        if known and known[0].host != each.host:
            _once(f"{each.host} has a worker called as one on {known[0].host}", each.name)
            continue
        known.append(each)
    hosts = [each[0].host for each in by_name.values()]
    return {
        name: Member(
            name,
            found[0].host,
            sum(each.cores for each in found),
            _units(found),
            tuple(each.id for each in found),
            hosts.count(found[0].host) == 1,
        )
        for name, found in by_name.items()
    }


def _executors(session: SparkSession) -> Iterator[_Executor]:
    # Python's status tracker does not tell executors, and the public Java one not their cores.
    store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - no public way
    listed = store.executorList(True)  # noqa: FBT003 - Scala: the active ones only
    for index in range(listed.size()):
        executor = listed.apply(index)
        if executor.id() != _DRIVER:
            host, told = _host(executor.hostPort()), executor.attributes()
            name = _told(told, WORKER) or host
            yield _Executor(executor.id(), host, executor.totalCores(), name, _told(told, UNITS))


def _told(attributes: Any, name: str) -> str | None:
    """One of the attributes, which are a Scala map."""
    return str(attributes.apply(name)) if attributes.contains(name) else None


def _units(executors: list[_Executor]) -> int | None:
    """The most that one of them tells; what is no number of units is said, and not counted."""
    found = []
    for each in executors:
        if each.units is None:
            continue
        if each.units.isdecimal() and int(each.units):
            found.append(int(each.units))
        else:
            _once(f"{each.units!r} is no number of units, its cores count", each.name)
    return max(found, default=None)


_SAID: set[tuple[str, str]] = set()


def _once(problem: str, worker: str) -> None:
    """Members are looked at twice a second; what is wrong is said once."""
    if (problem, worker) not in _SAID:
        _SAID.add((problem, worker))
        _log.error("a worker is not counted as it says", worker=worker, problem=problem)


def reported(name: str | None, units: int | None) -> Mapping[str, str]:
    """What a worker's environment says so that its executors report it."""
    told = {WORKER: name, UNITS: units}
    return {VARIABLE.format(key): str(each) for key, each in told.items() if each is not None}


def _host(address: str) -> str:
    """Of ``host:port``; an executor that came this moment has no port yet."""
    found = _ADDRESS.fullmatch(address)
    return found[1] if found else address
