"""Versions of a Delta table, each once: what it holds to begin with, then what is appended.

The position is the version that was read last, and the id of the table. What a version did is
read from its commit in the table's log: files that it added are rows; a reordering of files
(``dataChange`` false) is nothing. A version that deletes or updates has no rows to append: it is
an error, unless the source reads the table's change data feed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from atoll.errors import DeclarationError
from atoll.sources.base import (
    Lag,
    Position,
    Reader,
    Reads,
    Source,
    SourceError,
    without_package,
)
from atoll.sources.columns import fitted, only_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.codec.records.refusals import Checked
    from atoll.sources.noting import NotingCodec

__all__ = ["Delta"]

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""What the change data feed adds to the columns of the table."""
_ROWS = 65_536


class Delta(Source):
    """The rows of a Delta table, and those of each later version: each exactly once.

    The depot's columns are read by name; the table must have all of them.

    Args:
        uri: A folder, or ``s3://bucket/table`` and so on.
        options: What the store of a bucket needs, as deltalake names it.
        after: Begin behind this version, instead of with all rows of the present one.
        changes: Read what deletes and updates do, too, from the table's change data feed. The
            depot then has a column ``_change_type`` (``insert``, ``delete``,
            ``update_preimage``, ``update_postimage``), and may have ``_commit_version``.
        versions_max: So many versions at most are one append.
        bytes_max: An append takes no further version when it has so many bytes of files.
        id: See :class:`~atoll.sources.base.Source`; by default the table's place.
        poll: How long to wait after nothing new was found.
        dead_letter: Where rows go that do not fit.

    Raises:
        DeclarationError: When an argument cannot be.
    """

    kind = "delta"

    def __init__(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        uri: str,
        *,
        options: Mapping[str, str] | None = None,
        after: int | None = None,
        changes: bool = False,
        versions_max: int = 100,
        bytes_max: int = 64 * 1024 * 1024,
        id: str | None = None,  # noqa: A002  # the word users know
        poll: Any = "1 second",
        dead_letter: Any = None,
    ) -> None:
        super().__init__(str(uri), id=id, poll=poll, dead_letter=dead_letter)
        if versions_max < 1 or bytes_max < 1 or (after or 0) < 0:
            raise DeclarationError("versions begin at 0, and an append takes one at least")
        self.options = dict(options or {})
        self.begins_after = after
        self.changes = changes
        self.versions_max = versions_max
        self.bytes_max = bytes_max

    def open(self, schema: pa.Schema) -> Reader:
        """Look at the table."""
        try:
            import deltalake  # noqa: F401  # whether it is there
        except ImportError as error:
            raise without_package("Delta tables", "deltalake", "delta", self.place) from error
        with _answering(self.place):
            return _DeltaReader(self, schema)


class _DeltaReader(Reader):
    def __init__(self, source: Delta, schema: pa.Schema) -> None:
        from deltalake import DeltaTable

        self._source = source
        self._schema = schema
        self._table = DeltaTable(source.place, storage_options=source.options or None)
        self._table_id = str(self._table.metadata().id)
        settings = self._table.metadata().configuration
        there = [field.name for field in self._table.schema().fields]
        only_columns(schema, [*there, *(CHANGE_COLUMNS if source.changes else ())], source.place)
        self._check(settings)
        self._latest = self._table.version()

    def next(self, position: Position) -> Reads | None:
        """All rows of the present version, or the versions behind the position."""
        with _answering(self._source.place):
            self._table.update_incremental()
            self._latest = self._table.version()
        if position and position["table"] != self._table_id:
            raise self._error("changed", "another table has taken its place", "give its source id=")
        read = {"table": self._table_id}
        if not position and self._source.begins_after is None:
            return {**read, "whole": self._latest}
        first = position["version"] + 1 if position else (self._source.begins_after or 0) + 1
        last = self._last_of(first)
        return None if last is None else {**read, "from": first, "to": last}

    def read(self, reads: Reads, codec: NotingCodec) -> Iterator[Checked]:
        """Rows in the order of versions and of files in them."""
        with _answering(self._source.place):
            if "whole" in reads:
                batches = self._whole(reads["whole"])
            elif self._source.changes:
                batches = self._changed(reads["from"], reads["to"])
            else:
                batches = self._added(reads["from"], reads["to"])
            before, row = "", 1
            for place, batch in batches:
                row = row if place == before else 1
                before = place
                codec.place = f"{self._source.place} {place}"
                yield codec.from_arrow(batch, row)
                row += batch.num_rows

    def after(self, position: Position, reads: Reads) -> Position:  # noqa: ARG002  # it is told whole
        """At the last version."""
        return {"table": reads["table"], "version": reads.get("whole", reads.get("to"))}

    def lag(self, position: Position) -> Lag:
        """How many versions lay behind the position at the last look."""
        return Lag(self._latest - position.get("version", -1), "versions")

    def _whole(self, version: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        from deltalake import DeltaTable

        table = DeltaTable(self._source.place, version, self._source.options or None)
        own = [name for name in self._schema.names if name not in CHANGE_COLUMNS]
        fixed = {"_change_type": "insert", "_commit_version": version}
        for batch in table.to_pyarrow_dataset().to_batches(columns=own, batch_size=_ROWS):
            yield f"version {version}", fitted(batch, self._schema, fixed)

    def _changed(self, first: int, last: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        import pyarrow as pa

        for version in range(first, last + 1):
            found = self._table.load_cdf(starting_version=version, ending_version=version)
            for batch in pa.RecordBatchReader.from_stream(found):
                yield f"version {version}", fitted(batch, self._schema, {})

    def _added(self, first: int, last: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        import pyarrow.parquet

        files = self._files()
        for version in range(first, last + 1):
            for add in self._actions(version, "add"):
                name = unquote(add["path"])
                with files.open_input_file(name) as raw:
                    file = pyarrow.parquet.ParquetFile(raw)
                    there = set(file.schema_arrow.names)
                    own = [each for each in self._schema.names if each in there]
                    for batch in file.iter_batches(_ROWS, columns=own):
                        yield (
                            f"version {version}, {name}",
                            fitted(batch, self._schema, add.get("partitionValues") or {}),
                        )

    def _last_of(self, first: int) -> int | None:
        """The last version of the next append; those that cannot be read are an error in turn."""
        if first > self._latest:
            return None
        size, last = 0, None
        for version in range(first, min(self._latest, first + self._source.versions_max - 1) + 1):
            try:
                added = self._readable(version)
            except SourceError:
                if last is None:
                    raise
                return last
            size += added
            if last is not None and size > self._source.bytes_max:
                return last
            last = version
        return last

    def _readable(self, version: int) -> int:
        """How many bytes a version added; it does nothing else.

        Raises:
            SourceError: When it does.
        """
        size = 0
        for action in self._commit(version):
            if "remove" in action and action["remove"].get("dataChange", True):
                if not self._source.changes:
                    raise self._error(
                        "changed",
                        f"version {version} deletes or updates rows, which cannot be appended",
                        "read its change data feed with changes=True, or begin anew behind it: "
                        f"after={version} and an id= of its own",
                    )
            elif "add" in action:
                if action["add"].get("deletionVector"):
                    hint = "rewrite the table without deletion vectors"
                    raise self._error("unreadable", f"version {version} marks rows as gone", hint)
                size += action["add"].get("size", 0)
            elif "metaData" in action:
                if action["metaData"]["id"] != self._table_id:
                    hint = "give the source an id= of its own to read the new table"
                    raise self._error("changed", "another table has taken its place", hint)
                self._check(action["metaData"].get("configuration") or {})
        return size

    def _check(self, settings: Mapping[str, str | None]) -> None:
        if settings.get("delta.columnMapping.mode", "none") != "none":
            hint = "rewrite the table without column mapping"
            raise self._error("unreadable", "its columns have other names in files", hint)
        if self._source.changes and settings.get("delta.enableChangeDataFeed") != "true":
            hint = (
                "set the table's property delta.enableChangeDataFeed to true, and begin behind it"
            )
            raise self._error("unreadable", "it has no change data feed", hint)

    def _actions(self, version: int, kind: str) -> list[dict[str, Any]]:
        return [
            each[kind]
            for each in self._commit(version)
            if kind in each and each[kind].get("dataChange", True)
        ]

    def _commit(self, version: int) -> list[dict[str, Any]]:
        """What a version did, by the table's log."""
        try:
            with self._files().open_input_file(f"_delta_log/{version:020d}.json") as raw:
                return [json.loads(line) for line in raw.read().splitlines() if line.strip()]
        except FileNotFoundError as error:
            hint = "begin anew with an id= of its own; keep the table's log for longer"
            raise self._error(
                "gone", f"the log of version {version} was cleaned up", hint
            ) from error

    def _files(self) -> Any:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self._source.place, self._source.options or None))

    def _error(self, problem: str, what: str, hint: str) -> SourceError:
        return SourceError(
            f"the Delta table cannot be read: {what}",
            hint=hint,
            problem=problem,
            place=self._source.place,
        )


@contextlib.contextmanager
def _answering(place: str) -> Iterator[None]:
    """Say of what deltalake and Arrow raise where that was."""
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        gone = isinstance(error, FileNotFoundError)
        raise SourceError(
            f"the Delta table does not answer: {' '.join(str(error).split())[:300]}",
            hint="keep files for longer than they take to be read, then begin anew with an id="
            if gone
            else "check its address, its credentials and that it is a Delta table",
            problem="gone" if gone else "unreachable",
            place=place,
        ) from error
