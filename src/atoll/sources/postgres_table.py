"""What must be known of a PostgreSQL table to read it along some columns without losing rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.sources.base import SourceError

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

_ORDINARY, _PARTITIONED = "r", "p"
_PREPARED = "-1/"
"""How the virtual ids of prepared transactions begin."""
_TIMES = {"timestamp with time zone", "timestamp without time zone", "date"}

_COLUMNS = """
select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
from pg_attribute a where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
"""
_UNIQUE = """
select array_agg(a.attname::text) from pg_index i
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
where i.indrelid = %s and i.indisunique and i.indisvalid and i.indpred is null
  and i.indexprs is null and i.indimmediate
group by i.indexrelid
"""
_CACHE = """
select s.seqcache from pg_sequence s
where s.seqrelid = pg_get_serial_sequence(%s::regclass::text, %s)::regclass
"""
_WRITERS = """
select l.virtualtransaction from pg_locks l
where l.database = (select oid from pg_database where datname = current_database())
  and l.locktype = 'relation' and l.granted and l.pid is distinct from pg_backend_pid()
  and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                 'AccessExclusiveLock')
  and l.relation in (
      with recursive family as (
          select %s::oid as oid
          union select inhrelid from pg_inherits join family on inhparent = family.oid
      ) select oid from family)
"""


@dataclass(frozen=True)
class Table:
    """A table as it is read.

    Attributes:
        oid: Its number.
        name: As SQL writes it.
        along: The columns that order it, as SQL writes them.
        kinds: Their types.
        columns: All columns, by name, with their types.
    """

    oid: int
    name: str
    along: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: dict[str, str]

    @property
    def order(self) -> str:
        """In their order."""
        return f"order by {', '.join(self.along)}"

    @property
    def backwards(self) -> str:
        """In the opposite order."""
        return f"order by {', '.join(f'{each} desc' for each in self.along)}"

    def between(self, after: list[str] | None, upto: list[str] | None) -> tuple[str, list[Any]]:
        """A condition for the rows behind one and up to another, and its values."""
        row = f"({', '.join(self.along)})"
        given = f"({', '.join(f'%s::{kind}' for kind in self.kinds)})"
        parts = [
            f"{row} {sign} {given}"
            for sign, values in ((">", after), ("<=", upto))
            if values is not None
        ]
        return " and ".join(parts) or "true", [*(after or []), *(upto or [])]

    def settled(self, by: str, age_ms: int) -> tuple[str, list[Any]]:
        """A condition for the rows that no transaction can come before, and its values."""
        first = self.along[0]
        if by == "transaction":
            return f"{first} < pg_snapshot_xmin(pg_current_snapshot())", []
        return f"{first} < now() - make_interval(secs => %s)", [age_ms / 1000]

    def writers(self, connection: psycopg.Connection[Any]) -> frozenset[str]:
        """The transactions that may have drawn a value and not brought its row."""
        return frozenset(row[0] for row in connection.execute(_WRITERS, [self.oid]).fetchall())

    def selected(self, schema: pa.Schema) -> str:
        """What is selected for a depot's columns.

        Raises:
            SourceError: When the table lacks some.
        """
        import pyarrow as pa

        lacking = [name for name in schema.names if name not in self.columns]
        if lacking:
            raise SourceError(
                f"the table lacks columns of the depot: {', '.join(lacking)}",
                hint=f"it has {', '.join(sorted(self.columns))}; read a table that has them",
                problem="unreadable",
                place=self.name,
            )
        return ", ".join(
            f"{quoted(field.name)}::text as {quoted(field.name)}"
            if pa.types.is_string(field.type)
            else quoted(field.name)
            for field in schema
        )


def still_writing(before: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """Who of those that wrote may still bring rows.

    A transaction that is prepared goes on under another name: when one of them has vanished, each
    prepared one may be it.
    """
    vanished = {each for each in before - now if not each.startswith(_PREPARED)}
    prepared = {each for each in now if each.startswith(_PREPARED)}
    return (before & now) | (prepared if vanished else frozenset())


def table_of(
    connection: psycopg.Connection[Any], name: str, along: Sequence[str], settled: str
) -> Table:
    """The table, held against how it is to be read.

    Raises:
        SourceError: When it could be read only with losses.
    """
    found = connection.execute(
        "select c.oid, c.oid::regclass::text, c.relkind::text, pg_is_in_recovery() "
        "from pg_class c where c.oid = to_regclass(%s)",
        [name],
    ).fetchone()
    if found is None:
        raise _unsafe(name, "there is no such table", "check its name, and the schema before it")
    oid, shown, kind, replica = found
    if kind not in {_ORDINARY, _PARTITIONED}:
        hint = "read the table that lies below it"
        raise _unsafe(name, "it is no table, so nobody knows which rows may come late", hint)
    columns = {row[0]: (row[1], row[2]) for row in connection.execute(_COLUMNS, [oid]).fetchall()}
    for each in along:
        if each not in columns:
            raise _unsafe(
                name, f"it has no column {each!r}", f"it has {', '.join(sorted(columns))}"
            )
        if not columns[each][1]:
            hint = "declare the column NOT NULL, or read along another one"
            raise _unsafe(name, f"{each!r} may be null, and such rows would never be read", hint)
    unique = [set(row[0]) for row in connection.execute(_UNIQUE, [oid]).fetchall()]
    if not any(each <= set(along) for each in unique):
        hint = "make them unique, or add a unique column: along=('updated_at', 'id')"
        raise _unsafe(name, f"several rows may have the same {', '.join(along)}", hint)
    first = columns[along[0]][0]
    if settled == "transaction" and first != "xid8":
        hint = "add a column: tx xid8 not null default pg_current_xact_id(); along=('tx', 'id')"
        raise _unsafe(name, f"{along[0]!r} is {first} and no transaction's number", hint)
    if settled == "age" and first not in _TIMES:
        hint = "read along a timestamp first, or by settled='locks'"
        raise _unsafe(name, f"{along[0]!r} is {first}, which has no age", hint)
    if settled == "locks":
        _check_locks(connection, name, along, columns, oid=oid, replica=replica)
    names = tuple(quoted(each) for each in along)
    kinds = tuple(columns[each][0] for each in along)
    return Table(
        oid,
        shown.replace("%", "%%"),
        names,
        kinds,
        {each: kind for each, (kind, _) in columns.items()},
    )


def _check_locks(
    connection: psycopg.Connection[Any],
    name: str,
    along: Sequence[str],
    columns: dict[str, tuple[str, bool]],
    *,
    oid: int,
    replica: bool,
) -> None:
    """Hold that locks tell which numbers may come late."""
    if replica:
        hint = "connect to the primary, or use settled='transaction'"
        raise _unsafe(name, "a replica does not show who writes", hint)
    if columns[along[0]][0] in _TIMES:
        hint = "a time is that of a transaction's beginning: use settled='age' or 'transaction'"
        raise _unsafe(name, f"{along[0]!r} is a time, drawn before the table is locked", hint)
    for each in along:
        cache = connection.execute(_CACHE, [oid, each]).fetchone()
        if cache is not None and cache[0] > 1:
            hint = "set the sequence to cache 1, or use settled='transaction'"
            problem = f"connections draw {cache[0]} numbers of {each!r} ahead"
            raise _unsafe(name, problem, hint)


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _unsafe(name: str, what: str, hint: str) -> SourceError:
    return SourceError(
        f"the table cannot be read without losses: {what}", hint=hint, problem="unsafe", place=name
    )
