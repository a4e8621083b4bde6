"""A Delta table: rows appended, or a PState's entries kept in it, exactly once.

Each parcel is one version of the table. The version's commit holds the parcel's number as an
application transaction (``txn`` of the Delta protocol) under the sink's identity, and its rows. Of
two writers that both looked at the same version the log lets one go first, and refuses the other.
So what counts is that the number is looked up in the very snapshot that is written on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import NotFoundError, SinkError
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter
from atoll.sinks.lake import (
    CHANGED,
    IDENTITY,
    MICROBATCH,
    about,
    entries_of,
    spooled,
    table_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

__all__ = ["Delta", "delta_version"]


@dataclass(frozen=True)
class Delta(Sink):
    """Writes each microbatch as one version of a Delta table; exactly once.

    Rows of a stream are appended; several sinks may append to one table. Of a PState's changes
    the table holds the entries: each microbatch merges what it changed, so a version of the table
    is the PState as of a microbatch.

    Args:
        uri: A folder, or ``s3://bucket/table`` and so on, which is made if it is not there.
        options: What the store of a bucket needs, as deltalake names it. Never shown. On S3 and
            its like put ``{"AWS_CONDITIONAL_PUT": "etag"}``, or writers do not see each other.
        follow: Whether the table holds the entries of a PState whose changes come; else the
            changes are appended as rows.
        value: What the value of an entry is called, when it is no struct with fields.
        partition_by: Columns by whose values a table that is made is partitioned.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    follow: bool = True
    value: str = "value"
    partition_by: tuple[str, ...] = ()

    kind: ClassVar[str] = "delta"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    @property
    def target(self) -> str:
        """The URI."""
        return self.uri

    @property
    def signature(self) -> Mapping[str, str]:
        """Whether it follows a PState."""
        return {"follow": str(self.follow)}

    def check(self, rows: SinkRows) -> None:
        """Hold that entries have keys, and columns names of their own."""
        table_schema(rows, self.value, follows=self.follow)

    def open(self, opening: Opening) -> DeltaWriter:
        """Make the table, if it is not there; one that holds a PState must be this sink's own."""
        with _answering(self.uri):
            table = self._opened(opening)
        return DeltaWriter(self, table, opening)

    def _opened(self, opening: Opening) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        schema = table_schema(opening.rows, self.value, follows=self.follow)
        options = dict(self.options) or None
        own = self.follow and opening.rows.changes
        try:
            table = DeltaTable(self.uri, storage_options=options)
        except TableNotFoundError:
            table = DeltaTable.create(
                self.uri,
                schema,
                mode="ignore",
                partition_by=list(self.partition_by) or None,
                configuration={IDENTITY: opening.identity} if own else None,
                storage_options=options,
                raise_if_key_not_exists=False,
            )
            table.update_incremental()
        found = table.metadata().configuration.get(IDENTITY)
        if (own or found) and found != opening.identity:
            raise SinkError(
                f"{self.uri} is a table of {found or 'somebody else'}, and a PState is kept alone",
                hint="give the sink a table of its own",
            )
        return table


class DeltaWriter(SinkWriter):
    """Writes versions of one table."""

    def __init__(self, sink: Delta, table: DeltaTable, opening: Opening) -> None:
        """Nothing is written."""
        self._sink = sink
        self._table = table
        self._opening = opening
        self._follows = sink.follow and opening.rows.changes

    def last_written(self) -> int:
        """What the newest version says."""
        with _answering(self._sink.uri):
            self._table.update_incremental()
            return self._table.transaction_version(self._opening.identity) or 0

    def write(self, parcel: SinkParcel) -> None:
        """Rows and number as one version."""
        last = self.last_written()  # of the snapshot that is written on
        if not parcel.is_next(last, self._sink.uri, "restore the table as it was"):
            return
        with spooled(parcel) as rows, _answering(self._sink.uri):
            if self._follows and rows.num_rows:
                self._merge(rows, self._commit(parcel), parcel)
            else:
                self._append(rows, self._commit(parcel))

    def _append(self, rows: pa.Table, commit: CommitProperties) -> None:
        from deltalake import write_deltalake

        if self._follows:  # no changes: a version that says so
            schema = table_schema(self._opening.rows, self._sink.value, follows=True)
            rows = schema.empty_table()
        # the very object that was asked for the number: by the URI it would look at what is newest
        write_deltalake(
            self._table, rows, mode="append", schema_mode="merge", commit_properties=commit
        )

    def _merge(self, changes: pa.Table, commit: CommitProperties, parcel: SinkParcel) -> None:
        import pyarrow as pa

        keys = self._opening.rows.keys
        rows = SinkRows(parcel.schema, keys, self._opening.rows.of)
        there, gone = entries_of(changes, rows, self._sink.value)
        source = pa.concat_tables(
            [
                there.append_column(CHANGED, pa.repeat(pa.scalar(True), there.num_rows)),  # noqa: FBT003  # a value
                gone.append_column(CHANGED, pa.repeat(pa.scalar(False), gone.num_rows)),  # noqa: FBT003  # a value
            ],
            promote_options="default",
        )
        named = {_quoted(name): f"s.{_quoted(name)}" for name in there.column_names}
        values = {name: of for name, of in named.items() if name not in map(_quoted, keys)}
        flag = f"s.{_quoted(CHANGED)}"
        merging = self._table.merge(
            source,
            predicate=" and ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in keys),
            source_alias="s",
            target_alias="t",
            commit_properties=commit,
        ).when_matched_delete(predicate=f"not {flag}")
        if values:
            merging = merging.when_matched_update(updates=values, predicate=flag)
        merging.when_not_matched_insert(updates=named, predicate=flag).execute()

    def _commit(self, parcel: SinkParcel) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(
            custom_metadata=about(parcel, self._opening),
            app_transactions=[Transaction(self._opening.identity, parcel.number)],
        )


def delta_version(
    uri: str,
    microbatch: int,
    *,
    identity: str = "",
    options: Mapping[str, str] | None = None,
) -> int:
    """The version of a table that shows what a sink has written up to a microbatch.

    Args:
        uri: As the sink has it.
        microbatch: The id of the microbatch; after a rollback the newest of that id.
        identity: The sink's; needed only where several write to the table.
        options: As the sink has them.

    Raises:
        NotFoundError: When the table's log has no version of it, or not any more.
        SinkError: When the table cannot be read, or several sinks write to it.
    """
    from deltalake import DeltaTable

    with _answering(uri):
        history = DeltaTable(uri, storage_options=dict(options or {}) or None).history()
    told = [each for each in history if IDENTITY in each]
    sinks = {each[IDENTITY] for each in told} if not identity else {identity}
    if len(sinks) > 1:
        raise SinkError(
            f"{len(sinks)} sinks write to {uri}",
            hint="give the identity of one of them as well",
            sinks=sorted(sinks),
        )
    mine = [each for each in told if each[IDENTITY] in sinks]
    for each in sorted(mine, key=lambda one: int(one["version"]), reverse=True):
        if int(each[MICROBATCH]) <= microbatch:
            return int(each["version"])
    raise NotFoundError(
        f"{uri} has no version of microbatch {microbatch}",
        hint="ask for a later one: a table's log is cleaned up after a time",
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def _answering(uri: str) -> Iterator[None]:
    """Say of what deltalake raises where that was."""
    try:
        from deltalake.exceptions import CommitFailedError, DeltaError
    except ImportError as error:
        raise SinkError(
            f"{uri} needs the package deltalake", hint="pip install 'atoll[delta]'"
        ) from error
    try:
        yield
    except CommitFailedError as error:
        raise SinkError(
            f"another writer was faster in {uri}",
            hint="nothing need be done: it is looked at again",
        ) from error
    except (DeltaError, OSError) as error:
        text: Any = " ".join(str(error).split())[:300]
        raise SinkError(
            f"the table {uri} refuses: {text}",
            hint="check its address, its credentials and its columns",
        ) from error
