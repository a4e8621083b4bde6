"""A deployed, running module: its depots, PStates and topologies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from atoll.cluster.catalog import BoundTopology
from atoll.cluster.topologies import RunningTopology
from atoll.depot.depot import Depot
from atoll.errors import NotFoundError
from atoll.microbatch import events as ev
from atoll.microbatch.epochs import Epoch
from atoll.microbatch.history import CommitHistory
from atoll.microbatch.loop import Observer, TopologyLoop
from atoll.microbatch.objects import GENESIS, Commit
from atoll.microbatch.progress import known_checkpoints, latest_commit, pending_plan
from atoll.microbatch.tidy import drop_orphans
from atoll.spark.executor import SparkExecutor
from atoll.views.readable import ReadablePState

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from atoll.storage.local import LocalStore

__all__ = ["App"]

_T = TypeVar("_T")
_TRIM_INTERVAL_SECONDS = 10.0


class App:
    """Everything of one module in this process. Made by ``LocalCluster.deploy``."""

    def __init__(  # noqa: PLR0913  # the parts are injected once, by the cluster
        self,
        name: str,
        *,
        store: LocalStore,
        local: Path,
        session: SparkSession,
        epoch: Epoch,
        depots: Mapping[str, Depot],
        parallelism: int,
    ) -> None:
        """Topologies are added by the cluster, then started together."""
        self.name = name
        self.store = store
        self.local = local
        self.session = session
        self.epoch = epoch
        self.parallelism = parallelism
        self._trim_after = 0.0
        self._depots = dict(depots)
        self._loops: dict[str, TopologyLoop] = {}
        self._pstates: dict[str, ReadablePState] = {}
        self._histories: dict[str, CommitHistory] = {}

    # What users call ----------------------------------------------------------------------------

    def depot(self, name: str) -> Depot:
        """A depot, to append to and to read."""
        return _found(self._depots, name, "depot", self.name)

    def pstate(self, name: str) -> ReadablePState:
        """A PState, to read as of the last commit."""
        return _found(self._pstates, name, "PState", self.name)

    def dataframe(self, name: str, *, field: str | None = None) -> DataFrame:
        """A whole PState as a Spark DataFrame: columns ``key``, ``key_2``, ... and ``value``.

        It shows the last commit at the time that Spark plans the read. The vnodes are divided
        into as many Spark partitions as the topology has actors.

        Args:
            name: The PState.
            field: Which values to read of a struct whose fields are stored apart.
        """
        self.pstate(name)
        reader = self.session.read.format("atoll").options(
            root=str(self.store.root),
            module=self.name,
            pstate=name,
            field=field or "",
            groups=str(self.parallelism),
        )
        return reader.load()

    def topology(self, name: str) -> RunningTopology:
        """A topology, to wait for, pause and look at."""
        return RunningTopology(_found(self._loops, name, "topology", self.name))

    def depots(self) -> list[str]:
        """The names of the depots."""
        return sorted(self._depots)

    def pstates(self) -> list[str]:
        """The names of the PStates."""
        return sorted(self._pstates)

    def topologies(self) -> list[str]:
        """The names of the topologies."""
        return sorted(self._loops)

    def status(self) -> dict[str, Any]:
        """The status of every topology, and the size of every depot."""
        return {
            "module": self.name,
            "epoch": self.epoch.number,
            "at_ms": int(time.time() * 1000),
            "topologies": {name: self.topology(name).status() for name in self.topologies()},
            "depots": {
                name: {
                    "start_offsets": list(depot.start_offsets()),
                    "end_offsets": list(depot.end_offsets()),
                }
                for name, depot in sorted(self._depots.items())
            },
        }

    def close(self) -> None:
        """Stop the topologies after their running microbatch, then close the depots."""
        for loop in self._loops.values():
            loop.close()
        for depot in self._depots.values():
            depot.close()

    # What the cluster calls -----------------------------------------------------------------------

    def add_topology(
        self, bound: BoundTopology, starts: Mapping[str, list[int]], observer: Observer | None
    ) -> None:
        """Prepare one topology to go on where its last commit ended."""
        graph = bound.declared.graph
        depots = {name: self._depots[name] for name in graph.depots()}
        last = latest_commit(self.store, self.name, graph.topology)
        executor = SparkExecutor(
            self.session,
            bound.program,
            graph,
            bound.cut,
            bound.schemas,
            depots,
            bound.options.small_records_max,
        )
        if last.id:
            drop_orphans(self.store, self.name, graph.topology, last)
        plan = pending_plan(self.store, self.name, graph.topology, last)
        state = ev.State(
            epoch=self.epoch.number,
            options=bound.options,
            last=_with_starts(last, starts, depots),
            vnode_counts={name: each.vnode_count for name, each in graph.pstates.items()},
            checkpoints=known_checkpoints(self.store, self.name, graph.topology, last),
        )
        loop = TopologyLoop(
            self.name,
            graph.topology,
            store=self.store,
            epoch=self.epoch,
            executor=executor,
            depots=depots,
            state=state,
            first=None if plan is None else ev.PlanReady(plan),
            observer=observer,
            housekeeping=self._trim_depots,
        )
        self._loops[graph.topology] = loop
        for name, spec in bound.program.pstates.items():
            self._pstates[name] = ReadablePState(
                spec, self.store, self.local, partial(self._history, loop)
            )
        for depot in depots.values():
            depot.on_append(loop.notify_append)

    def start(self) -> None:
        """Start all topologies."""
        for loop in self._loops.values():
            loop.start()

    def _trim_depots(self) -> None:
        """Let retention drop what every topology has processed; now and then is enough."""
        now = time.monotonic()
        if now < self._trim_after:
            return
        self._trim_after = now + _TRIM_INTERVAL_SECONDS
        for name, depot in self._depots.items():
            needed = [
                loop.published.ends()[name] for loop in self._loops.values() if name in loop.depots
            ]
            protected = [min(offsets) for offsets in zip(*needed, strict=True)] or None
            depot.trim(protected)

    def _history(self, loop: TopologyLoop) -> CommitHistory:
        """The log as of the published commit; the same object while there is no new one."""
        published = loop.published
        known = self._histories.get(loop.topology)
        if known is None or known.commit is not published:
            known = CommitHistory(self.store, self.name, loop.topology, published)
            self._histories[loop.topology] = known
        return known


def _with_starts(
    last: Commit, starts: Mapping[str, list[int]], depots: Mapping[str, Depot]
) -> Commit:
    """The progress with a beginning for depots that no commit has met."""
    ends = last.ends()
    ranges = {name: [(at, at) for at in ends.get(name, starts.get(name, []))] for name in depots}
    return msgspec.structs.replace(last if last.id else GENESIS, ranges=ranges)


def _found(things: Mapping[str, _T], name: str, kind: str, module: str) -> _T:
    if name not in things:
        raise NotFoundError(
            f"module {module!r} has no {kind} {name!r}",
            hint="it has " + (", ".join(sorted(things)) or "none"),
        )
    return things[name]
