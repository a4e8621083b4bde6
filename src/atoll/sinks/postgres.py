"""A table of PostgreSQL: rows appended to it, or a PState followed entry by entry; exactly once.

One row of the table ``atoll_sinks`` beside the target says whose the target is and which parcel it
holds. A parcel's rows and the step of that number are one transaction. The step is a conditional
update, so it also is the lock: of two writers the second waits, finds the number taken, and goes
without writing. Rows come in by binary COPY.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import SinkError
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter
from atoll.sinks.postgres_types import columns_of, holds, prepared, type_of, values_of

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from psycopg.sql import Composable, Identifier

MARKS = "atoll_sinks"
_NAME_BYTES_MAX = 63
_OURS = {
    "application_name": "atoll",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A server that is gone is found out within half a minute; what a connection string says counts."""
_LOCK = 0x61746F6C6C
"""Of the advisory lock under which tables are made: two at once would collide."""


@dataclass(frozen=True)
class Postgres(Sink):
    """Writes to a table of PostgreSQL 12 or later, exactly once. Needs ``atoll[postgres]``.

    Rows of a stream are appended. The changes of a PState are followed: the table has a row per
    entry, under its keys, as the PState has.

    Args:
        conninfo: A connection string or URL of libpq; its password is never shown. What it leaves
            out comes from the environment (``PGPASSWORD``, ``PGSERVICE`` and so on).
        table: The table. It is made when it is not there, with the columns of the rows.
        schema: The table's schema, which must be there; ``atoll_sinks`` is made in it too.
        value: Of a PState whose values are no structs what their column is called; fields of
            structs are columns.
    """

    conninfo: str = field(repr=False)
    table: str
    schema: str = "public"
    value: str = "value"

    kind: ClassVar[str] = "postgres"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    @property
    def target(self) -> str:
        """Server, database and table."""
        from psycopg.conninfo import conninfo_to_dict

        known = conninfo_to_dict(self.conninfo)
        where = f"{known.get('host', 'localhost')}:{known.get('port', 5432)}"
        return f"{where}/{known.get('dbname', '')} {self.schema}.{self.table}"

    @property
    def signature(self) -> Mapping[str, str]:
        """The table."""
        return {"table": f"{self.schema}.{self.table}"}

    def check(self, rows: SinkRows) -> None:
        """Hold that the columns can be those of a table, and an entry has a key."""
        columns = columns_of(rows, self.value)
        for name in (self.table, self.schema, *columns):
            if not name or "\0" in name or len(name.encode()) > _NAME_BYTES_MAX:
                raise SinkError(
                    f"{name!r} cannot name a column, table or schema of PostgreSQL",
                    hint=f"use 1 to {_NAME_BYTES_MAX} bytes; rename a column with select(...)",
                )

    def open(self, opening: Opening) -> PostgresWriter:
        """Connect, and make the tables that are not there."""
        try:
            import psycopg
        except ImportError as error:
            raise SinkError(
                "a sink in PostgreSQL needs the package psycopg",
                hint="pip install 'atoll[postgres]'",
            ) from error
        with _told(self):
            known = psycopg.conninfo.conninfo_to_dict(self.conninfo)
            connection = psycopg.connect(**{**_OURS, **known})  # type: ignore[arg-type]
            try:
                return PostgresWriter(self, connection, opening)
            except BaseException:
                connection.close()
                raise


class PostgresWriter(SinkWriter):
    """One connection; one transaction per parcel."""

    def __init__(
        self, sink: Postgres, connection: psycopg.Connection[Any], opening: Opening
    ) -> None:
        """Make what is not there, and hold that the target is this sink's."""
        from psycopg.sql import Identifier

        self._sink = sink
        self._connection = connection
        self._identity = opening.identity
        self._rows = opening.rows
        self._table = Identifier(sink.schema, sink.table)
        self._marks = Identifier(sink.schema, MARKS)
        self._name = f"{sink.schema}.{sink.table}"
        with connection.transaction():
            self._execute("SELECT pg_advisory_xact_lock(%s)", _LOCK)
            self._make()
        owner, _ = self._mark()
        if owner != self._identity:
            raise SinkError(
                f"table {self._name} is that of another sink, {owner}",
                hint="give each sink a table of its own; if that one is gone for good, delete its "
                f"row from {sink.schema}.{MARKS}, and what is not wanted from the table",
            )

    def last_written(self) -> int:
        """What the mark says."""
        with _told(self._sink):
            return self._mark()[1]

    def write(self, parcel: SinkParcel) -> None:
        """The step of the number, then the rows, then the commit."""
        with _told(self._sink), self._connection.transaction():
            if self._stepped(parcel):
                columns = columns_of(
                    SinkRows(parcel.schema, self._rows.keys, self._rows.of), self._sink.value
                )
                if self._rows.changes:
                    self._follow(parcel, columns)
                elif parcel.records:
                    self._copy(self._table, parcel.batches(), columns)

    def close(self) -> None:
        """Close the connection; what was not committed is gone."""
        self._connection.close()

    # Inside ---------------------------------------------------------------------------------------

    def _make(self) -> None:
        from psycopg.sql import SQL, Identifier

        self._execute(
            "CREATE TABLE IF NOT EXISTS {} (target text PRIMARY KEY, identity text NOT NULL, "
            "number bigint NOT NULL, timeline bigint NOT NULL, microbatch bigint NOT NULL, "
            "written_at timestamptz)",
            names=[self._marks],
        )
        self._execute(
            "INSERT INTO {} VALUES (%s, %s, 0, 0, 0, NULL) ON CONFLICT DO NOTHING",
            self._name,
            self._identity,
            names=[self._marks],
        )
        columns = [
            SQL("{} {}").format(Identifier(name), SQL(type_of(kind)))
            for name, kind in columns_of(self._rows, self._sink.value).items()
        ]
        if self._rows.changes:
            keys = SQL(", ").join(map(Identifier, self._rows.keys))
            columns.append(SQL("PRIMARY KEY ({})").format(keys))
        made = SQL(", ").join(columns)
        self._execute("CREATE TABLE IF NOT EXISTS {} ({})", names=[self._table, made])

    def _mark(self) -> tuple[str, int]:
        found = self._execute(
            "SELECT identity, number FROM {} WHERE target = %s", self._name, names=[self._marks]
        ).fetchone()
        self._connection.commit()
        return ("", 0) if found is None else (found[0], found[1])

    def _stepped(self, parcel: SinkParcel) -> bool:
        """Take the number; False when the target holds it.

        Raises:
            SinkError: When it is not the next one, or the table is another sink's by now.
        """
        stepped = self._execute(
            "UPDATE {} SET number = %s, timeline = %s, microbatch = %s, written_at = now() "
            "WHERE target = %s AND identity = %s AND number = %s",
            parcel.number,
            parcel.timeline,
            parcel.microbatch,
            self._name,
            self._identity,
            parcel.number - 1,
            names=[self._marks],
        )
        if stepped.rowcount == 1:
            return True
        found = self._execute(
            "SELECT identity, number FROM {} WHERE target = %s", self._name, names=[self._marks]
        ).fetchone()
        owner, number = ("", 0) if found is None else found
        if owner == self._identity and number >= parcel.number:
            return False
        raise SinkError(
            f"parcel {parcel.number} cannot follow {number} in {self._name}",
            hint=f"restore the table and {self._sink.schema}.{MARKS} from one moment",
            owner=owner,
        )

    def _follow(self, parcel: SinkParcel, columns: Mapping[str, pa.DataType]) -> None:
        """Put in and replace what is there now, and delete what is not."""
        from psycopg.sql import SQL, Identifier

        keys = {name: columns[name] for name in self._rows.keys}
        if not parcel.records:
            return
        for name, chosen, there in (("atoll_new", columns, True), ("atoll_gone", keys, False)):
            each = SQL(", ").join(map(Identifier, chosen))
            self._execute(
                "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA",
                names=[Identifier(name), each, self._table],
            )
            batches = (
                prepared(batch, self._rows, self._sink.value, there=there)
                for batch in parcel.batches()
            )
            self._copy(Identifier("pg_temp", name), batches, chosen)
        values = [name for name in columns if name not in keys]
        sets = [SQL("{0} = excluded.{0}").format(Identifier(name)) for name in values]
        act = SQL("UPDATE SET {}").format(SQL(", ").join(sets)) if sets else SQL("NOTHING")
        listed, named = (SQL(", ").join(map(Identifier, each)) for each in (columns, keys))
        self._execute(
            "INSERT INTO {} ({}) SELECT {} FROM pg_temp.atoll_new ON CONFLICT ({}) DO {}",
            names=[self._table, listed, listed, named, act],
        )
        same = SQL(" AND ").join(SQL("t.{0} = g.{0}").format(Identifier(key)) for key in keys)
        self._execute(
            "DELETE FROM {} AS t USING pg_temp.atoll_gone AS g WHERE {}", names=[self._table, same]
        )

    def _copy(
        self,
        table: Identifier,
        batches: Iterable[pa.RecordBatch],
        columns: Mapping[str, pa.DataType],
    ) -> None:
        """Bring rows in, in the types that the table has."""
        from psycopg.sql import SQL, Identifier

        types = self._types(table, columns)
        into = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            table, SQL(", ").join(map(Identifier, columns))
        )
        with self._connection.cursor() as cursor, cursor.copy(into) as copy:
            copy.set_types(list(types.values()))
            for batch in batches:
                found = [values_of(batch.column(name), kind) for name, kind in types.items()]
                for row in zip(*found, strict=True):
                    copy.write_row(row)

    def _types(self, table: Identifier, columns: Mapping[str, pa.DataType]) -> dict[str, str]:
        """The table's own types of some columns.

        Raises:
            SinkError: When it has not all of them, or one that would change values.
        """
        found = self._execute(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            table.as_string(self._connection),
        ).fetchall()
        there = dict(found)
        for name, wanted in columns.items():
            if name not in there:
                raise SinkError(
                    f"table {self._name} has no column {name!r}",
                    hint=f"add it: ALTER TABLE {self._name} ADD COLUMN ... {type_of(wanted)}; "
                    "what waits is written then",
                )
            if not holds(there[name], wanted):
                raise SinkError(
                    f"column {name!r} of table {self._name} is {there[name]}, which does not hold "
                    f"{type_of(wanted)}",
                    hint="let the table have that type, or write another one: select('CAST(...)')",
                )
        return {name: there[name] for name in columns}

    def _execute(
        self, text: str, *values: object, names: Sequence[Composable] = ()
    ) -> psycopg.Cursor[Any]:
        from psycopg.sql import SQL

        statement = SQL(text).format(*names)
        return self._connection.execute(statement, values or None)


@contextlib.contextmanager
def _told(sink: Postgres) -> Iterator[None]:
    """Say of what psycopg raises which table it is about."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        name = f"{sink.schema}.{sink.table}"
        refused = isinstance(error, psycopg.DataError | psycopg.IntegrityError)
        raise SinkError(
            f"PostgreSQL refuses table {name}: {str(error).strip() or type(error).__name__}",
            hint="let the table take such rows, or deploy the module with rows that it takes; what "
            "waits is tried again as it is"
            if refused
            else "let the server run and the user write to the table; it goes on by itself then",
        ) from error
