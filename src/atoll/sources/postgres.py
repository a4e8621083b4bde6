"""Rows of a PostgreSQL table, each once, read along columns that only grow.

What was read is the last row's values of these columns. The danger are rows that come late: a
transaction draws number 7, another draws 8 and commits first; whoever has read 8 and goes on there
never sees 7. So nothing is read before it is *settled*, that is, before no transaction can bring a
row that lies lower any more.

- ``locks``: for numbers that the insert itself draws (``serial``, ``identity``). Whoever inserts
  holds a lock on the table from before it draws until it ends. So the highest number is looked at,
  then who holds such a lock; once all of those have ended, all numbers up to that one are there
  or never will be. (PostgreSQL's own ``CREATE INDEX CONCURRENTLY`` waits in this way.)
- ``transaction``: for a first column ``xid8`` with the default ``pg_current_xact_id()``. Read is
  what lies below the oldest transaction that runs: ``pg_snapshot_xmin``.
- ``age``: for a time in the first column. Read is what is older than the length of time given; it
  is as safe as no transaction takes longer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from atoll.durations import parse_millis
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
from atoll.sources.postgres_table import still_writing, table_of

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from atoll.codec.records.refusals import Checked
    from atoll.sources.noting import NotingCodec

__all__ = ["Postgres"]

Settled = Literal["locks", "transaction", "age"]

_ROWS_PER_CHECK = 5_000
_COUNT_MAX = 100_000
_SETTINGS = {
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "default_transaction_read_only": "on",
}
_CONNECT_SECONDS = 10


class Postgres(Source):
    """The rows of a table, those that come later too: each exactly once.

    The table's columns are matched with the depot's by name; the table must have all of them.

    Args:
        dsn: A connection string or URI. Name a service or a password file in it rather than a
            password: it is part of the program.
        table: The table, with its schema where that is not on the search path.
        along: The columns that order the rows, of which later rows have higher values; together
            they are unique and not null.
        settled: Which rows no transaction can come before any more: ``locks``, ``transaction`` or
            ``age``.
        age: With ``age``, how old a row must be.
        rows_max: How many rows one append takes at most.
        id: See :class:`~atoll.sources.base.Source`; by default table and columns.
        poll: How long to wait after nothing new was found.
        dead_letter: Where rows go that do not fit.

    Raises:
        DeclarationError: When an argument cannot be.
    """

    kind = "postgres"

    def __init__(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        dsn: str,
        table: str,
        *,
        along: str | Sequence[str],
        settled: Settled = "locks",
        age: Any = None,
        rows_max: int = 50_000,
        id: str | None = None,  # noqa: A002  # the word users know
        poll: Any = "1 second",
        dead_letter: Any = None,
    ) -> None:
        self.along = (along,) if isinstance(along, str) else tuple(along)
        place = f"{table}({', '.join(self.along)})"
        super().__init__(place, id=id, poll=poll, dead_letter=dead_letter)
        if not self.along:
            raise DeclarationError("rows are read along a column", hint='name it: along="id"')
        if settled not in {"locks", "transaction", "age"}:
            raise DeclarationError(
                f"rows cannot be settled by {settled!r}", hint="use locks, transaction or age"
            )
        if (settled == "age") != (age is not None):
            raise DeclarationError(
                "an age belongs to settled='age'", hint="give both, age='1 minute', or neither"
            )
        if rows_max < 1:
            raise DeclarationError("an append takes one row at least", hint="raise rows_max to 1")
        self.dsn = dsn
        self.table = table
        self.settled = settled
        self.age_ms = 0 if age is None else parse_millis(age, "the age of a settled row")
        self.rows_max = rows_max

    def open(self, schema: pa.Schema) -> Reader:
        """Connect, and hold the table against what is declared."""
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict, make_conninfo
        except ImportError as error:
            raise without_package("PostgreSQL", "psycopg", "postgres", self.place) from error
        with _answering(self.place):
            given: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS}
            given |= conninfo_to_dict(self.dsn)
            connection = psycopg.connect(make_conninfo(**given), autocommit=True)
        try:
            with _answering(self.place):
                for name, value in _SETTINGS.items():
                    connection.execute("select set_config(%s, %s, false)", [name, value])
            return _TableReader(self, connection, schema)
        except BaseException:
            connection.close()
            raise


class _TableReader(Reader):
    """Reads one table over one connection."""

    def __init__(
        self, source: Postgres, connection: psycopg.Connection[Any], schema: pa.Schema
    ) -> None:
        self._source = source
        self._connection = connection
        with _answering(source.place):
            self._table = table_of(connection, source.table, source.along, source.settled)
        self._selected = self._table.selected(schema)
        self._doubt: tuple[list[str], frozenset[str]] | None = None
        """The highest row seen, and who could still bring rows below it."""
        self._waiting: int | None = None

    def next(self, position: Position) -> Reads | None:
        """Up to the highest row that is settled, or so many rows as one append takes."""
        after = position.get("after")
        with _answering(self._source.place):
            upto = self._settled_upto(after)
            self._waiting = self._count(after)
        return None if upto is None else {"after": after, "upto": upto}

    def read(self, reads: Reads, codec: NotingCodec) -> Iterator[Checked]:
        """The rows behind ``after`` up to ``upto``, in their order."""
        from psycopg.rows import dict_row

        behind = ", ".join(reads["after"] or ())
        codec.place = f"{self._source.place} behind {behind}" if behind else self._source.place
        where, values = self._table.between(reads["after"], reads["upto"])
        query = (
            f"select {self._selected} from {self._table.name} "  # noqa: S608  # names are quoted
            f"where {where} {self._table.order}"
        )
        line = 1
        with _answering(self._source.place), self._connection.transaction():
            cursor: psycopg.ServerCursor[dict[str, Any]]
            with self._connection.cursor("atoll", row_factory=dict_row) as cursor:
                cursor.itersize = _ROWS_PER_CHECK
                cursor.execute(query.encode(), values)
                while rows := cursor.fetchmany(_ROWS_PER_CHECK):
                    yield codec.from_rows(rows, line)
                    line += len(rows)

    def after(self, position: Position, reads: Reads) -> Position:  # noqa: ARG002  # it is told whole
        """Behind the last row."""
        return {"after": reads["upto"]}

    def lag(self, position: Position) -> Lag:  # noqa: ARG002  # as of the last look
        """How many rows lay behind the position, settled or not; counted up to 100,000."""
        return Lag(self._waiting, "rows")

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _settled_upto(self, after: list[str] | None) -> list[str] | None:
        source, table = self._source, self._table
        if source.settled != "locks":
            return self._last(after, table.settled(source.settled, source.age_ms))
        if self._doubt is None:
            upto = self._last(after, ("true", []))
            if upto is None:
                return None
            self._doubt = (upto, table.writers(self._connection))  # in this order
        upto, writers = self._doubt
        if writers:
            writers = still_writing(writers, table.writers(self._connection))
        self._doubt = (upto, writers) if writers else None
        return None if writers else upto

    def _last(self, after: list[str] | None, settled: tuple[str, list[Any]]) -> list[str] | None:
        """The last row of the next append; None when there is none."""
        where, values = self._table.between(after, None)
        texts = ", ".join(f"{each}::text" for each in self._table.along)
        query = (
            f"select {texts} from (select * from {self._table.name} "  # noqa: S608  # as above
            f"where {where} and "
            f"{settled[0]} {self._table.order} limit %s) next {self._table.backwards} limit 1"
        )
        values = [*values, *settled[1], self._source.rows_max]
        row = self._connection.execute(query.encode(), values).fetchone()
        return None if row is None else list(row)

    def _count(self, after: list[str] | None) -> int:
        where, values = self._table.between(after, None)
        query = (
            f"select count(*) from (select 1 from {self._table.name} "  # noqa: S608  # as above
            f"where {where} limit %s) n"
        )
        row = self._connection.execute(query.encode(), [*values, _COUNT_MAX]).fetchone()
        return int(row[0]) if row else 0


@contextlib.contextmanager
def _answering(place: str) -> Iterator[None]:
    """Say of what the server refuses where that was."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise SourceError(
            f"PostgreSQL refuses: {' '.join(str(error).split()) or type(error).__name__}",
            hint="check that the server runs, the connection string and what it may read",
            problem="unreachable",
            place=place,
            sqlstate=error.sqlstate,
        ) from error
