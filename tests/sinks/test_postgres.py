"""The PostgreSQL sink against the contract on a real server, and what only it does."""

from __future__ import annotations

import json
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pytest
from postgres import database, postgres_server  # noqa: F401 - fixtures

import atoll
from atoll import Map, Set, start
from atoll.errors import SinkError
from atoll.sinks import Opening, Postgres, SinkRows
from atoll.testing import TopologyTestDriver
from atoll.testing.sinks import SinkContract, parcel_of

IDS = SinkRows(pa.schema([("id", pa.int64())]))
OPENING = Opening("m/t/s/0", 1, IDS)


def ids(*numbers):
    """Rows."""
    return pa.table({"id": pa.array(numbers, pa.int64())})


@dataclass
class Stats:
    """Of an item."""

    n: int
    cents: int


class TestPostgres(SinkContract):
    """Rows appended, and a PState followed."""

    follows_changes = True

    @pytest.fixture(autouse=True)
    def _server(self, database):  # noqa: F811 - a fixture
        self.dsn = database

    def make_sink(self, target):
        """A table of that name."""
        return Postgres(self.dsn, target)

    def make_changes_sink(self, target):
        """The value's column as the contract calls it."""
        return Postgres(self.dsn, target, value="new")

    def held(self, target):
        """The rows as they were put in; maps and structs are JSON."""
        with psycopg.connect(self.dsn) as connection:
            cursor = connection.execute(f'SELECT * FROM "{target}"')
            names = [each.name for each in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def ask(database):  # noqa: F811 - a fixture
    """Runs a statement."""

    def run(statement):
        with psycopg.connect(database, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None

    return run


def test_names_that_would_end_a_statement_are_only_names(database, ask):  # noqa: F811
    """Table, schema and columns are quoted wherever they stand."""
    evil = 'a"; DROP TABLE atoll_sinks; --'
    ask(f'CREATE SCHEMA "{evil.replace(chr(34), chr(34) * 2)}"')
    sink = Postgres(database, evil, schema=evil, value=evil + "v")
    rows = SinkRows(
        pa.schema([(evil + "k", pa.string()), ("old", pa.int64()), ("new", pa.int64())]),
        (evil + "k",),
        "entries",
    )
    sink.check(rows)
    writer = sink.open(Opening("x", 1, rows))
    changes = [{evil + "k": "'; --", "old": None, "new": 1}]
    writer.write(parcel_of(1, pa.Table.from_pylist(changes, rows.schema)))
    changes = [{evil + "k": "'; --", "old": 1, "new": None}]
    writer.write(parcel_of(2, pa.Table.from_pylist(changes, rows.schema)))
    assert writer.last_written() == 2
    writer.close()


@pytest.mark.parametrize("name", ["", "x" * 64, "ü" * 32, "a\0b"])
def test_names_that_postgresql_would_cut_or_refuse_are_refused_at_once(name):
    """It would cut them to 63 bytes, and two columns could become one."""
    with pytest.raises(SinkError, match="cannot name"):
        Postgres("", name).check(IDS)
    with pytest.raises(SinkError, match="cannot name"):
        Postgres("", "t").check(SinkRows(pa.schema([(name, pa.int64())])))


def test_a_pstate_of_structs_sets_and_two_keys(database, ask):  # noqa: F811
    """Fields are columns, elements are rows, and what the PState holds is what the table holds."""
    module = atoll.Module("shop")
    orders = module.depot("orders", "shop string, item string, cents long", partition_by="shop")
    mb = module.microbatch("mb", vnode_count=4)
    items = mb.pstate("items", Map(str, Set(str)))
    stats = mb.pstate("stats", Map(str, Map(str, Stats)))
    rows = mb.source(orders, start_from=start.beginning())

    def note(row, stats, items):
        items[row.shop].add(row.item)
        found = stats[row.shop].get(row.item)
        n, cents = (0, 0) if found is None else (found["n"], found["cents"])
        if row.cents < 0:
            del stats[row.shop][row.item]
        else:
            stats[row.shop][row.item] = Stats(n + 1, cents + row.cents)

    rows.process(note, key="shop", states=[stats, items])
    items.changes("shop", "item").write_to(Postgres(database, "items"), name="items")
    stats.changes("shop", "item").write_to(Postgres(database, "stats"), name="stats")
    with TopologyTestDriver(module) as driver:
        for cents in (5, 7, -1, 3):
            driver.depot("orders").append(
                [{"shop": "s", "item": i, "cents": cents} for i in ("tea", "nut")]
                + [{"shop": "s", "item": "egg", "cents": 1}]
            )
            driver.microbatch()
            driver.write_sinks()
        assert ask("SELECT shop, item, n, cents FROM stats ORDER BY item") == [
            ("s", "egg", 4, 4),
            ("s", "nut", 1, 3),
            ("s", "tea", 1, 3),
        ]
        assert ask("SELECT shop, item FROM items ORDER BY item") == [
            ("s", "egg"),
            ("s", "nut"),
            ("s", "tea"),
        ]


def test_nested_values_are_json(database, ask):  # noqa: F811
    """Structs and maps; a list of plain values is an array."""
    kind = pa.struct([("at", pa.date32()), ("more", pa.map_(pa.int64(), pa.binary()))])
    table = pa.table(
        {
            "j": pa.array([{"at": None, "more": [(1, b"\xff")]}, None], kind),
            "a": pa.array([[1, None], None], pa.list_(pa.int32())),
        }
    )
    writer = Postgres(database, "t").open(Opening("x", 1, SinkRows(table.schema)))
    writer.write(parcel_of(1, table))
    writer.close()
    assert ask("SELECT j::text, a FROM t") == [
        (json.dumps({"at": None, "more": [[1, "/w=="]]}), [1, None]),
        (None, None),
    ]


def test_a_table_that_the_user_made_is_written_in_its_own_types(database, ask):  # noqa: F811
    """Narrower columns take what fits, more columns get their defaults, constraints hold."""
    ask("CREATE TABLE t (at timestamptz DEFAULT now(), id smallint CHECK (id < 100))")
    writer = Postgres(database, "t").open(OPENING)
    writer.write(parcel_of(1, ids(1, 2)))
    with pytest.raises(SinkError, match=r"PostgreSQL refuses table public\.t: .* check constraint"):
        writer.write(parcel_of(2, ids(3, 100)))
    with pytest.raises(SinkError, match="a smallint does not hold all values"):
        writer.write(parcel_of(2, ids(3, 2**40)))
    assert ask("SELECT id, at IS NULL FROM t") == [(1, False), (2, False)]
    assert writer.last_written() == 1
    writer.write(parcel_of(2, ids(3)))
    writer.close()


def test_a_table_is_one_sinks(database, ask):  # noqa: F811
    """Another sink is refused, and says what to do if the first one is gone; that works."""
    Postgres(database, "t").open(OPENING).close()
    other = Opening("m/t/other/1", 1, IDS)
    with pytest.raises(SinkError, match="is that of another sink, m/t/s/0") as raised:
        Postgres(database, "t").open(other)
    assert "delete its row from public.atoll_sinks" in raised.value.hint
    ask("DELETE FROM public.atoll_sinks WHERE target = 'public.t'")
    Postgres(database, "t").open(other).close()


def test_a_server_that_is_not_there_says_so_without_the_password():
    """In the error, the target and the repr."""
    sink = Postgres("host=127.0.0.1 port=1 user=u password=canary dbname=d", "t")
    with pytest.raises(SinkError, match=r"PostgreSQL refuses table public\.t") as raised:
        sink.open(OPENING)
    assert sink.target == "127.0.0.1:1/d public.t"
    assert "canary" not in repr(sink) + sink.target + str(raised.value)


def test_a_value_that_is_one_has_no_key():
    """There is nothing to follow it by."""
    rows = SinkRows(pa.schema([("old", pa.int64()), ("new", pa.int64())]), (), "entries")
    with pytest.raises(SinkError, match="has no keys"):
        Postgres("", "t").check(rows)


def test_a_key_and_a_value_of_one_name_are_refused():
    """Where the columns are declared."""
    names = [("value", pa.string()), ("old", pa.int64()), ("new", pa.int64())]
    rows = SinkRows(pa.schema(names), ("value",), "entries")
    with pytest.raises(SinkError, match="both be column 'value'"):
        Postgres("", "t").check(rows)
    Postgres("", "t", value="n").check(rows)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("id real", pa.float64()), ("id date", pa.string()), ("id int", pa.float64())],
)
def test_a_column_that_would_change_values_is_refused(database, ask, column, kind):  # noqa: F811
    """Nothing is rounded or read as something else."""
    ask(f"CREATE TABLE t ({column})")
    table = pa.table({"id": pa.array([None], kind)})
    writer = Postgres(database, "t").open(Opening("x", 1, SinkRows(table.schema)))
    with pytest.raises(SinkError, match="which does not hold"):
        writer.write(parcel_of(1, table))
    assert writer.last_written() == 0
    writer.close()
