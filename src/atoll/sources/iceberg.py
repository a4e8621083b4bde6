"""Snapshots of an Iceberg table, each once: what it holds to begin with, then what is appended.

The position is the snapshot that was read last, and the id of the table. Behind it come those of
which it is an ancestor, in order. One that appends has rows; one that rewrites files (``replace``)
has none; one that deletes or overwrites rows is an error, since rows cannot be taken back from a
depot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from atoll.errors import AtollError, DeclarationError
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
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.snapshots import Snapshot

    from atoll.codec.records.refusals import Checked
    from atoll.sources.noting import NotingCodec

__all__ = ["Iceberg"]


class Iceberg(Source):
    """The rows of an Iceberg table, and those of each later snapshot: each exactly once.

    The depot's columns are read by name; the table must have all of them.

    Args:
        table: The table's name in its catalog: ``"shop.orders"``.
        catalog: The catalog's name. One that pyiceberg is configured with, in its file or in the
            environment, needs no properties; so credentials stay out of the program.
        properties: As pyiceberg's ``load_catalog`` takes them: ``{"type": "rest", "uri": "..."}``.
        after: Begin behind this snapshot, instead of with all rows of the present one.
        snapshots_max: So many snapshots at most are one append.
        id: See :class:`~atoll.sources.base.Source`; by default catalog and table.
        poll: How long to wait after nothing new was found.
        dead_letter: Where rows go that do not fit.

    Raises:
        DeclarationError: When an argument cannot be.
    """

    kind = "iceberg"

    def __init__(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        table: str,
        *,
        catalog: str = "default",
        properties: Mapping[str, str] | None = None,
        after: int | None = None,
        snapshots_max: int = 100,
        id: str | None = None,  # noqa: A002  # the word users know
        poll: Any = "1 second",
        dead_letter: Any = None,
    ) -> None:
        super().__init__(f"{catalog}.{table}", id=id, poll=poll, dead_letter=dead_letter)
        self.catalog = catalog
        self.properties = dict(properties or {})
        if snapshots_max < 1:
            raise DeclarationError("an append takes one snapshot at least")
        self.table = table
        self.begins_after = after
        self.snapshots_max = snapshots_max

    def open(self, schema: pa.Schema) -> Reader:
        """Look at the table."""
        try:
            import pyiceberg.catalog  # noqa: F401  # whether it is there
        except ImportError as error:
            raise without_package("Iceberg tables", "pyiceberg", "iceberg", self.place) from error
        with _answering(self.place):
            return _IcebergReader(self, schema)


class _IcebergReader(Reader):
    def __init__(self, source: Iceberg, schema: pa.Schema) -> None:
        from pyiceberg.catalog import load_catalog

        self._source = source
        self._schema = schema
        self._catalog = load_catalog(source.catalog, **source.properties)
        self._table = self._catalog.load_table(source.table)
        only_columns(schema, self._table.schema().column_names, source.place)
        self._waiting: int | None = None

    def next(self, position: Position) -> Reads | None:
        """All rows of the present snapshot, or those behind the position."""
        with _answering(self._source.place):
            self._table.refresh()
        if position and position["table"] != str(self._table.metadata.table_uuid):
            hint = "give the source an id= of its own to read the new table"
            raise self._error("changed", "another table has taken its place", hint)
        read = {"table": str(self._table.metadata.table_uuid)}
        now = self._table.current_snapshot()
        if now is None:
            self._waiting = 0
            return None
        if not position and self._source.begins_after is None:
            return {**read, "whole": now.snapshot_id}
        behind = position["snapshot"] if position else self._source.begins_after
        coming = self._coming(now, behind)
        self._waiting = len(coming)
        taken: list[int] = []
        for each in coming[: self._source.snapshots_max]:
            problem = _unappendable(each)
            if problem and not taken:
                hint = f"begin anew behind it: after={each.snapshot_id} and an id= of its own"
                raise self._error("changed", problem, hint)
            if problem:
                break
            taken.append(each.snapshot_id)
        return {**read, "snapshots": taken} if taken else None

    def read(self, reads: Reads, codec: NotingCodec) -> Iterator[Checked]:
        """Rows in the order of snapshots and of files in them."""
        with _answering(self._source.place):
            for snapshot in reads.get("snapshots", [reads.get("whole")]):
                codec.place = f"{self._source.place} snapshot {snapshot}"
                row = 1
                for batch in self._rows(snapshot, whole="whole" in reads):
                    yield codec.from_arrow(fitted(batch, self._schema, {}), row)
                    row += batch.num_rows

    def after(self, position: Position, reads: Reads) -> Position:  # noqa: ARG002  # it is told whole
        """At the last snapshot."""
        last = reads["whole"] if "whole" in reads else reads["snapshots"][-1]
        return {"table": reads["table"], "snapshot": last}

    def lag(self, position: Position) -> Lag:  # noqa: ARG002  # counted as they were found
        """How many snapshots lay behind the position at the last look."""
        return Lag(self._waiting, "snapshots")

    def _coming(self, now: Snapshot, behind: int | None) -> list[Snapshot]:
        """The snapshots behind one, up to the present one, in order."""
        found, at = [], now
        while at.snapshot_id != behind:
            found.append(at)
            parent = at.parent_snapshot_id
            before = None if parent is None else self._table.snapshot_by_id(parent)
            if before is None:
                hint = "begin anew with an id= of its own; keep snapshots for longer"
                what = f"snapshot {behind} is not among the ancestors of the present one"
                raise self._error("gone", what, hint)
            at = before
        return found[::-1]

    def _rows(self, snapshot_id: int, *, whole: bool) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import FileScanTask

        own = [name for name in self._schema.names if name in self._table.schema().column_names]
        if whole:
            chosen = self._table.scan(snapshot_id=snapshot_id, selected_fields=tuple(own))
            yield from chosen.to_arrow_batch_reader()
            return
        wanted = self._table.schema().select(*own)
        scan = ArrowScan(self._table.metadata, self._table.io, wanted, AlwaysTrue())
        for file in self._added(snapshot_id):
            yield from scan.to_record_batches([FileScanTask(file)])

    def _added(self, snapshot_id: int) -> Iterator[DataFile]:
        """The files that a snapshot added."""
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

        snapshot = self._table.snapshot_by_id(snapshot_id)
        if snapshot is None:
            hint = "begin anew with an id= of its own; keep snapshots for longer"
            raise self._error("gone", f"snapshot {snapshot_id} has expired", hint)
        if _unappendable(snapshot):
            return
        for manifest in snapshot.manifests(self._table.io):
            if manifest.content != ManifestContent.DATA:
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io):
                added = entry.status == ManifestEntryStatus.ADDED
                if added and entry.snapshot_id == snapshot_id and _appends(snapshot):
                    yield entry.data_file

    def _error(self, problem: str, what: str, hint: str) -> SourceError:
        return SourceError(
            f"the Iceberg table cannot be read: {what}",
            hint=hint,
            problem=problem,
            place=self._source.place,
        )


def _operation(snapshot: Snapshot) -> str:
    summary = snapshot.summary
    return "" if summary is None else str(summary.operation.value)


def _appends(snapshot: Snapshot) -> bool:
    return _operation(snapshot) == "append"


def _unappendable(snapshot: Snapshot) -> str:
    """Why what a snapshot did cannot be appended; empty when it can."""
    operation = _operation(snapshot)
    if operation in {"append", "replace"}:
        return ""
    did = {"delete": "deletes rows", "overwrite": "overwrites rows"}
    return f"snapshot {snapshot.snapshot_id} {did.get(operation, 'does not say what it does')}"


@contextlib.contextmanager
def _answering(place: str) -> Iterator[None]:
    """Say of what pyiceberg raises, which raises much, where that was."""
    try:
        yield
    except AtollError:
        raise
    except Exception as error:
        gone = isinstance(error, FileNotFoundError)
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise SourceError(
            f"the Iceberg table does not answer: {text}",
            hint="keep files for longer than they take to be read, then begin anew with an id="
            if gone
            else "check the catalog's properties, its credentials and the table's name",
            problem="gone" if gone else "unreachable",
            place=place,
        ) from error
