"""Brings what a commit appends into the depots, each row exactly once.

The rows lie in files that the commit names, so a delivery can be repeated at any time: by the
same process after a full disk, by the next life after a crash. Each repetition is one append call
per depot by the same producer under the same number, which the depot stores once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.records.refusals import Checked
from atoll.ddl import to_ddl
from atoll.depot.migration import NotMigratedError, blamed, generation_of_rows, migrate
from atoll.depot.producers.table import Producer, topology_producer
from atoll.errors import DamageError, ProducerError
from atoll.storage.local import storage_errors

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.microbatch.commits.objects import AppendedRows, Commit, Reach
    from atoll.pstate.store.history import FileRef
    from atoll.storage.local import LocalStore


_CHUNK_BYTES = 1024 * 1024


class Delivery:
    """Delivers the commits of one topology. Called by one thread.

    Args:
        store: Where the files of commits lie.
        depots: The module's depots, by name.
        module: The module's name.
        topology: The topology's name.
    """

    def __init__(
        self, store: LocalStore, depots: Mapping[str, Depot], module: str, topology: str
    ) -> None:
        self.store = store
        self.depots = depots
        self.producer_id = topology_producer(module, topology)

    def __call__(self, commit: Commit) -> Reach:
        """Append the commit's rows where they are not yet; when this returns they are durable.

        Returns:
            For each depot, by depot partition, an offset behind all of them: the next one after
            the last, unless they were stored so long ago that it is not remembered.

        Raises:
            DamageError: When a file is not what the commit says.
            StorageError: When the disk refuses; call again when it works.
            UserCodeError: When a migration of a depot fails on a row that the life before owed.
            FencedError: When another life of the coordinator owns the depots.
        """
        producer = Producer(self.producer_id, sequence=commit.id, epoch=commit.timeline, gaps=True)
        reach: Reach = {}
        for name, parts in _by_depot(commit).items():
            if name not in self.depots:
                continue  # it was removed since; only the life before could owe it rows
            depot = self.depots[name]
            rows = _Present(self.records(parts), depot)
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

    def records(self, parts: list[AppendedRows]) -> Iterator[Checked]:
        """The records of some files, one batch in memory at a time.

        Raises:
            DamageError: When a file is not what was written.
        """
        for part in parts:
            yield from self._records_of(part.file)

    def _records_of(self, file: FileRef) -> Iterator[Checked]:
        path = self.store.path(file.name)
        with storage_errors(path):
            self._check(file)
            with pa.OSFile(str(path)) as source:
                reader = pa.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield Checked(reader.get_batch(index), [], 0)

    def _check(self, file: FileRef) -> None:
        size = crc = 0
        try:
            with self.store.path(file.name).open("rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    size += len(chunk)
                    crc = zlib.crc32(chunk, crc)
        except FileNotFoundError as error:
            raise DamageError(
                "a file of rows for a depot is missing",
                hint="a commit names it: restore it from a copy, or roll the topology back",
                file=file.name,
            ) from error
        if (size, crc) != (file.size, file.crc):
            raise DamageError(
                "a file of rows for a depot is damaged",
                hint="a commit names it: restore it from a copy, or roll the topology back",
                file=file.name,
            )


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


class _Present:
    """Records in the schema that their depot has now, whatever it was when they were written.

    ``changed`` says, once they were read, whether it was another one.
    """

    def __init__(self, records: Iterator[Checked], depot: Depot) -> None:
        self.changed = False
        self._records = records
        self._depot = depot

    def __iter__(self) -> Iterator[Checked]:
        spec, migrations = self._depot.spec, self._depot.migrations
        for each in self._records:
            since = migrations
            if migrations:
                stored = to_ddl(each.batch.schema)
                since = migrations[generation_of_rows(migrations, to_ddl(spec.schema), stored) :]
            try:
                batch = migrate(each.batch, since, spec.schema)
            except NotMigratedError as error:
                where = "a row that a topology appended before the update"
                raise blamed(error, spec.name, where) from error
            self.changed = self.changed or batch is not each.batch
            yield Checked(batch, each.refusals, each.refused_count)


def _by_depot(commit: Commit) -> dict[str, list[AppendedRows]]:
    """The commit's files by depot, in the order of their names: that of the rows."""
    files: dict[str, list[AppendedRows]] = {}
    for part in sorted(commit.appends, key=lambda each: each.file.name):
        files.setdefault(part.depot, []).append(part)
    return files
