"""The files of rows that commits append to depots: checked, and read in the depot's schema."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.records.refusals import Checked
from atoll.ddl import to_ddl
from atoll.depot.migration import NotMigratedError, blamed, generation_of_rows, migrate
from atoll.errors import DamageError
from atoll.storage.local import storage_errors

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.pstate.store.history import FileRef
    from atoll.storage.roots import RootStore

_CHUNK_BYTES = 1024 * 1024


def rows_of(store: RootStore, files: Iterable[FileRef]) -> Iterator[Checked]:
    """The records of some files, one batch in memory at a time.

    Raises:
        DamageError: When a file is not what was written.
    """
    for file in files:
        path = store.file(file.name)
        with storage_errors(path):
            check_file(store, file)
            with pa.OSFile(str(path)) as source:
                reader = pa.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield Checked(reader.get_batch(index), [], 0)


def check_file(store: RootStore, file: FileRef) -> None:
    """Hold that a file of rows is what was written.

    Raises:
        DamageError: When it is missing, or not.
    """
    size = crc = 0
    try:
        with store.file(file.name).open("rb") as source:
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


class Present:
    """Records in the schema that their depot has now, whatever it was when they were written.

    ``changed`` says, once they were read, whether it was another one.
    """

    def __init__(self, records: Iterator[Checked], depot: Depot) -> None:
        self.changed = False
        self._records = records
        self._depot = depot

    def __iter__(self) -> Iterator[Checked]:
        """Each batch, migrated where that is due.

        Raises:
            UserCodeError: When a migration of the depot fails on a row.
        """
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
