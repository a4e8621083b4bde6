"""Brings what a commit appends into the depots, each row exactly once.

The rows lie in files that the commit names, so a delivery can be repeated at any time: by the
same process after a full disk, by the next life after a crash. Each repetition is one append call
per depot by the same producer under the same number, which the depot stores once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from atoll.cluster.clockwork import now_ms
from atoll.depot.producers.table import Producer, topology_producer
from atoll.errors import ProducerError
from atoll.microbatch.parcels.box import ParcelBox
from atoll.microbatch.parcels.rows import Present, rows_of
from atoll.names import mirrored_name, sink_named

if TYPE_CHECKING:
    from atoll.cluster.sinks.running import RunningSink
    from atoll.codec.records.refusals import Checked
    from atoll.depot.depot import Depot
    from atoll.microbatch.commits.objects import AppendedRows, Commit, Reach
    from atoll.storage.roots import RootStore


class Delivery:
    """Delivers the commits of one topology. Called by one thread.

    Args:
        store: Where the files of commits lie.
        depots: The module's depots, by name.
        module: The module's name.
        topology: The topology's name.
        now_ms: The clock.
        sinks: The topology's sinks, by name.
    """

    def __init__(
        self,
        store: RootStore,
        depots: Mapping[str, Depot],
        module: str,
        topology: str,
        now_ms: Callable[[], int] = now_ms,
        sinks: Mapping[str, RunningSink] = MappingProxyType({}),
    ) -> None:
        self.store = store
        self.depots = depots
        self.sender = (module, topology)
        self.now_ms = now_ms
        self.producer_id = topology_producer(module, topology)
        self.sinks = sinks

    def __call__(self, commit: Commit) -> Reach:
        """Append the commit's rows where they are not yet; when this returns they are durable.

        Those for depots of other modules, and for sinks, are sent there as parcels.

        Returns:
            For each depot of the module, by depot partition, an offset behind all of them: the next
            one after the last, unless they were stored so long ago that it is not remembered.

        Raises:
            DamageError: When a file is not what the commit says.
            StorageError: When the disk refuses; call again when it works.
            UserCodeError: When a migration of a depot fails on a row that the life before owed.
            FencedError: When another life of the coordinator owns the depots.
        """
        producer = Producer(self.producer_id, sequence=commit.id, epoch=commit.timeline, gaps=True)
        reach: Reach = {}
        for name, parts in _by_depot(commit).items():
            sink, owner = sink_named(name), mirrored_name(name)
            if sink is not None:
                self._send(sink, commit, parts)
                continue
            if owner is not None:
                box = ParcelBox(self.store, *owner, self.sender)
                files = (part.file for part in parts)
                box.send(commit.timeline, commit.id, files, self.now_ms())
                continue
            if name not in self.depots:
                continue  # it was removed since; only the life before could owe it rows
            depot = self.depots[name]
            rows = Present(self.records(parts), depot)
            try:
                reach[name] = depot.append_stream(rows, producer=producer).ends
            except ProducerError as error:
                # Stored before the depot got another schema, or before a rollback: commits are
                # delivered in order, and one after it was.
                problem = error.context.get("problem")
                if not (problem == "conflict" and rows.changed) and problem != "stale epoch":
                    raise
                reach[name] = dict(enumerate(depot.end_offsets()))
        return reach

    def _send(self, name: str, commit: Commit, parts: list[AppendedRows]) -> None:
        """Keep a commit's rows for a sink, which takes them when it can."""
        if name in self.sinks:  # else it was removed since
            sink = self.sinks[name]
            files = (part.file for part in parts)
            sink.box.send(commit.timeline, commit.id, files, self.now_ms())
            sink.wake()

    def records(self, parts: list[AppendedRows]) -> Iterator[Checked]:
        """The records of some files, one batch in memory at a time.

        Raises:
            DamageError: When a file is not what was written.
        """
        yield from rows_of(self.store, (part.file for part in parts))


def delivered_before(last: Commit, depots: Mapping[str, Depot]) -> Reach:
    """How far the commits before the last one appended to depots, or further.

    Where the last commit does not say it, as after a rollback and in a root of an older release,
    it is as far as the depot goes.
    """
    if not last.id:
        return {name: {} for name in depots}
    told = {} if last.timeline else last.delivered
    now = {name: dict(enumerate(each.end_offsets())) for name, each in depots.items()}
    return {**now, **told}


def _by_depot(commit: Commit) -> dict[str, list[AppendedRows]]:
    """The commit's files by depot, in the order of their names: that of the rows."""
    files: dict[str, list[AppendedRows]] = {}
    for part in sorted(commit.appends, key=lambda each: each.file.name):
        files.setdefault(part.depot, []).append(part)
    return files
