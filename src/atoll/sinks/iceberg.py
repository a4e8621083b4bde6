"""An Iceberg table: rows appended, or a PState's entries kept in it, exactly once.

Each parcel is one transaction of the table. It sets a property of the table under the sink's
identity to the parcel's number, and adds snapshots with the rows. The catalog swaps the table's
metadata only if it is still what the writer has looked at, so of two writers one is refused.

pyiceberg repeats a refused commit by itself, on what the other one has written, and would so write
the rows twice: the table must have the property ``commit.retry.num-retries`` 0, which the sink
sets before it first writes. The number is a property, not only one of a snapshot, so that
snapshots may expire.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import AtollError, NotFoundError, SinkError
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter
from atoll.sinks.lake import (
    IDENTITY,
    MICROBATCH,
    about,
    before_of,
    entries_of,
    spooled,
    table_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction

__all__ = ["Iceberg", "iceberg_snapshot"]

RETRIES = "commit.retry.num-retries"
_KEYS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Iceberg(Sink):
    """Writes each microbatch as one commit of an Iceberg table; exactly once.

    Rows of a stream are appended. Of a PState's changes the table holds the entries: those that
    changed are deleted and put in anew, in one commit.

    Args:
        table: The table's name in its catalog: ``"shop.orders"``. It is made if it is not there,
            and its namespace too.
        catalog: The catalog's name. One that pyiceberg is configured with needs no properties.
        properties: As pyiceberg's ``load_catalog`` takes them. Never shown.
        follow: Whether the table holds the entries of a PState whose changes come; else the
            changes are appended as rows.
        value: What the value of an entry is called, when it is no struct with fields.
    """

    table: str
    catalog: str = "default"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    follow: bool = True
    value: str = "value"

    kind: ClassVar[str] = "iceberg"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    @property
    def target(self) -> str:
        """Catalog and table."""
        return f"{self.catalog}.{self.table}"

    @property
    def signature(self) -> Mapping[str, str]:
        """Whether it follows a PState."""
        return {"follow": str(self.follow)}

    def check(self, rows: SinkRows) -> None:
        """Hold that entries have keys, columns names of their own, and Iceberg their types."""
        schema = table_schema(rows, self.value, follows=self.follow)
        dotted = [name for name in rows.keys if "." in name]
        if dotted and self.follow:
            raise SinkError(
                f"Iceberg takes a key named {dotted[0]!r} for a field of a struct",
                hint="name the keys otherwise: changes('...')",
            )
        with _answering(self.target):
            from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

            _pyarrow_to_schema_without_ids(_wider(schema))

    def open(self, opening: Opening) -> IcebergWriter:
        """Make the table, if it is not there; one that holds a PState must be this sink's own."""
        with _answering(self.target):
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog(self.catalog, **self.properties)
            table = self._opened(catalog, opening)
        return IcebergWriter(self, catalog, table, opening)

    def _opened(self, catalog: Catalog, opening: Opening) -> Table:
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        own = self.follow and opening.rows.changes
        try:
            table = catalog.load_table(self.table)
        except NoSuchTableError:
            properties = {RETRIES: "0"} | ({IDENTITY: opening.identity} if own else {})
            schema = table_schema(opening.rows, self.value, follows=self.follow)
            catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
            with contextlib.suppress(TableAlreadyExistsError):  # another one came in between
                catalog.create_table(self.table, _wider(schema), properties=properties)
            table = catalog.load_table(self.table)
        found = table.properties.get(IDENTITY)
        if (own or found) and found != opening.identity:
            raise SinkError(
                f"{self.target} is a table of {found or 'somebody else'}, "
                "and a PState is kept alone",
                hint="give the sink a table of its own",
            )
        if table.properties.get(RETRIES) != "0":
            with table.transaction() as change:
                change.set_properties({RETRIES: "0"})
            table.refresh()
        return table


class IcebergWriter(SinkWriter):
    """Writes commits of one table."""

    def __init__(self, sink: Iceberg, catalog: Catalog, table: Table, opening: Opening) -> None:
        """Nothing is written."""
        self._sink = sink
        self._catalog = catalog
        self._table = table
        self._opening = opening
        self._follows = sink.follow and opening.rows.changes
        self._property = f"atoll.written.{opening.identity}"

    def last_written(self) -> int:
        """What the newest metadata says."""
        with _answering(self._sink.target):
            self._table.refresh()
        return int(self._table.properties.get(self._property, "0"))

    def write(self, parcel: SinkParcel) -> None:
        """Rows and number as one commit."""
        last = self.last_written()  # of the metadata that is written on
        if not parcel.is_next(last, self._sink.target, "restore the table as it was"):
            return
        with spooled(parcel) as rows, _answering(self._sink.target):
            if self._table.properties.get(RETRIES) != "0":
                raise SinkError(
                    f"{self._sink.target} lost its property {RETRIES}",
                    hint="nothing need be done: it is set again",
                )
            change = self._table.transaction()
            change.set_properties({self._property: str(parcel.number)})
            if rows.num_rows:
                self._put(change, rows, parcel)
            change.commit_transaction()

    def close(self) -> None:
        """Let go of the catalog."""
        self._catalog.close()

    def _put(self, change: Transaction, rows: pa.Table, parcel: SinkParcel) -> None:
        told = about(parcel, self._opening)
        if self._follows:
            given = SinkRows(parcel.schema, self._opening.rows.keys, self._opening.rows.of)
            there, _ = entries_of(rows, given, self._sink.value)
            self._widen(change, there.schema)
            for chosen in _filters(before_of(rows, given)):
                change.delete(chosen, snapshot_properties=told)
            rows = there
        else:
            self._widen(change, rows.schema)
        if rows.num_rows:
            change.append(rows.cast(_wider(rows.schema)), snapshot_properties=told)

    def _widen(self, change: Transaction, schema: pa.Schema) -> None:
        """Add columns that rows have since an update of the module."""
        if set(schema.names) - set(self._table.schema().column_names):
            with change.update_schema() as update:
                update.union_by_name(_wider(schema))


def iceberg_snapshot(
    table: str,
    microbatch: int,
    *,
    catalog: str = "default",
    properties: Mapping[str, str] | None = None,
    identity: str = "",
) -> int:
    """The snapshot of a table that shows what a sink has written up to a microbatch.

    Args:
        table: As the sink has it.
        microbatch: The id of the microbatch; after a rollback the newest of that id.
        catalog: As the sink has it.
        properties: As the sink has them.
        identity: The sink's; needed only where several write to the table.

    Raises:
        NotFoundError: When the table has no snapshot of it, or not any more.
        SinkError: When the table cannot be read, or several sinks write to it.
    """
    with _answering(f"{catalog}.{table}"):
        from pyiceberg.catalog import load_catalog

        loaded = load_catalog(catalog, **(properties or {}))
        found = loaded.load_table(table)
        loaded.close()
    told, at = [], found.current_snapshot()
    while at is not None:
        summary = {} if at.summary is None else dict(at.summary.additional_properties)
        if IDENTITY in summary and identity in {"", summary[IDENTITY]}:
            told.append((summary[IDENTITY], int(summary[MICROBATCH]), at.snapshot_id))
        parent = at.parent_snapshot_id
        at = None if parent is None else found.snapshot_by_id(parent)
    sinks = sorted({each for each, _, _ in told})
    if len(sinks) > 1:
        raise SinkError(
            f"{len(sinks)} sinks write to {table}",
            hint="give the identity of one of them as well",
            sinks=sinks,
        )
    for _, number, snapshot in told:
        if number <= microbatch:
            return snapshot
    raise NotFoundError(
        f"{table} has no snapshot of microbatch {microbatch}",
        hint="ask for a later one: snapshots expire",
    )


def _filters(keys: pa.Table) -> Iterator[BooleanExpression]:
    """What matches the rows with such keys, some at a time."""
    import pyiceberg.expressions as found_in

    of: Any = found_in  # its classes take more than their types say

    for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
        part = keys.slice(start, _KEYS_AT_ONCE)
        if len(part.column_names) == 1:
            (name,) = part.column_names
            yield of.In(name, set(part.column(name).to_pylist()))
            continue
        found: BooleanExpression | None = None
        for row in part.to_pylist():
            one = of.And(*(of.EqualTo(name, value) for name, value in row.items()))
            found = one if found is None else of.Or(found, one)
        if found is not None:
            yield found


def _wider(schema: pa.Schema) -> pa.Schema:
    """The schema in types that Iceberg has: its integers have 32 bits or 64."""
    import pyarrow as pa

    narrow = {pa.int8(), pa.int16()}
    return pa.schema(
        [
            pa.field(each.name, pa.int32() if each.type in narrow else each.type, each.nullable)
            for each in schema
        ]
    )


@contextlib.contextmanager
def _answering(target: str) -> Iterator[None]:
    """Say of what pyiceberg raises, which raises much, where that was."""
    try:
        import pyiceberg.exceptions
    except ImportError as error:
        raise SinkError(
            f"{target} needs the package pyiceberg", hint="pip install 'atoll[iceberg]'"
        ) from error
    try:
        yield
    except AtollError:
        raise
    except pyiceberg.exceptions.CommitFailedException as error:
        raise SinkError(
            f"another writer was faster in {target}",
            hint="nothing need be done: it is looked at again",
        ) from error
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise SinkError(
            f"the table {target} refuses: {text}",
            hint="check the catalog's properties, its credentials and the table's columns",
        ) from error
