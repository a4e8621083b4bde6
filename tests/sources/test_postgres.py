"""Rows of PostgreSQL: each once, also those whose transactions commit late."""

import datetime as dt
import random
from decimal import Decimal

import pytest
from feeding import drained, fed, values

from atoll.errors import DeclarationError
from atoll.sources import Postgres, SourceError
from atoll.sources.postgres_table import still_writing

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def connected(database):
    """What writes."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create table t (id bigserial primary key, v bigint)")
        yield connection


def insert(connection, *numbers):
    """Rows, in order."""
    for number in numbers:
        connection.execute("insert into t (v) values (%s)", [number])


def test_rows_are_read_once_in_order_over_lives(tmp_path, database, connected):
    """So many at a time; the lag tells what waits."""
    insert(connected, *range(7))
    source = Postgres(database, "t", along="id", rows_max=3)
    with fed(tmp_path, source) as (feeder, depot, _):
        assert feeder.turn().records == 3
        assert feeder.lag().waiting == 7
        assert feeder.shown() == {"after": ["3"]}
    with fed(tmp_path, source) as (feeder, depot, _):
        assert drained(feeder) == (4, 0)
        insert(connected, 7)
        assert drained(feeder) == (1, 0)
        assert values(depot) == list(range(8))
        assert feeder.lag().waiting == 0


def test_every_type_of_column_arrives_as_it_is(tmp_path, database, connected):
    """Texts are those of PostgreSQL for whatever is no text."""
    connected.execute(
        "create table things (id int generated always as identity primary key, name text,"
        " price numeric(10, 2), at timestamptz, day date, raw bytea, tags text[], which uuid,"
        " more jsonb, okay boolean)"
    )
    connected.execute(
        "insert into things (name, price, at, day, raw, tags, which, more, okay) values ('a%%s',"
        " 1.50, '2026-01-31 12:00:00.123456+02', '2026-02-01', '\\x0001', '{x,y}',"
        " '00000000-0000-0000-0000-00000000000a', '{\"b\": [1]}', true)",
        [],
    )
    ddl = (
        "id int, name string, price decimal(10,2), at timestamp, day date, raw binary,"
        " tags array<string>, which string, more string, okay boolean"
    )
    with fed(tmp_path, Postgres(database, "things", along="id"), ddl) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        assert depot.read(0, 0, 1).to_pylist() == [
            {
                "id": 1,
                "name": "a%s",
                "price": Decimal("1.50"),
                "at": dt.datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=dt.UTC),
                "day": dt.date(2026, 2, 1),
                "raw": b"\x00\x01",
                "tags": ["x", "y"],
                "which": "00000000-0000-0000-0000-00000000000a",
                "more": '{"b": [1]}',
                "okay": True,
            }
        ]


def test_a_row_that_does_not_fit_is_set_aside(tmp_path, database, connected):
    """With the table and what it held."""
    insert(connected, 1, None, 3)
    source = Postgres(database, "t", along="id")
    with fed(tmp_path, source, "v long NOT NULL", setting_aside=True) as (feeder, _, aside):
        assert drained(feeder) == (2, 1)
        row = aside.read(0, 0, 1).to_pylist()[0]
        assert (row["line"], row["row"]) == ("t(id):2", '{"v":null}')


@pytest.mark.parametrize("settled", ["locks", "transaction"])
def test_a_transaction_that_commits_late_loses_nothing(tmp_path, database, connected, settled):
    """A row that lies below others is waited for, and so are those that lie above it."""
    connected.execute("alter table t add tx xid8 not null default pg_current_xact_id()")
    along = "id" if settled == "locks" else ("tx", "id")
    source = Postgres(database, "t", along=along, settled=settled)
    with fed(tmp_path, source) as (feeder, depot, _), psycopg.connect(database) as late:
        insert(late, 1)
        insert(connected, 2)
        assert feeder.turn() is None
        assert feeder.lag().waiting == 1
        insert(connected, 3)
        assert feeder.turn() is None
        late.commit()
        assert drained(feeder) == (3, 0)
        assert values(depot) == [1, 2, 3]


def test_a_transaction_that_is_prepared_is_waited_for(tmp_path, database, connected):
    """Though it goes on under another name; so is one that takes numbers and rolls back."""
    source = Postgres(database, "t", along="id")
    with fed(tmp_path, source) as (feeder, depot, _), psycopg.connect(database) as late:
        late.tpc_begin(late.xid(1, "a", "b"))
        insert(late, 1)
        insert(connected, 2)
        assert feeder.turn() is None
        late.tpc_prepare()
        assert feeder.turn() is None
        assert feeder.turn() is None
        late.tpc_commit()
        assert drained(feeder) == (2, 0)
        assert values(depot) == [1, 2]


def test_who_may_still_write():
    """Prepared transactions count only while they may be one that has vanished."""

    def left(before, now):
        return sorted(still_writing(frozenset(before.split()), frozenset(now.split())))

    assert left("1/1 2/2", "2/2 3/3") == ["2/2"]
    assert left("1/1", "1/1 -1/7") == ["1/1"]
    assert left("1/1", "-1/7 -1/8") == ["-1/7", "-1/8"]
    assert left("-1/7 -1/8", "-1/8 -1/9") == ["-1/8"]
    assert left("1/1", "2/2") == []


def test_rows_of_an_age_are_read(tmp_path, database, connected):
    """Those that are younger wait."""
    connected.execute("create table e (id serial primary key, at timestamptz not null, v bigint)")
    connected.execute(
        "insert into e (at, v) values (now() - interval '1 hour', 1), (now(), 2),"
        " (now() - interval '2 hours', 0)"
    )
    source = Postgres(database, "e", along=("at", "id"), settled="age", age="10 minutes")
    with fed(tmp_path, source) as (feeder, depot, _):
        assert drained(feeder) == (2, 0)
        assert values(depot) == [0, 1]
        assert feeder.lag().waiting == 1


def test_tables_in_parts_are_read_as_one(tmp_path, database, connected):
    """Who writes into a part of it is waited for, too."""
    connected.execute(
        "create table p (id bigserial, v bigint, primary key (id)) partition by range (id)"
    )
    connected.execute("create table p1 partition of p for values from (1) to (3)")
    connected.execute("create table p2 partition of p for values from (3) to (100)")
    source = Postgres(database, "p", along="id")
    with fed(tmp_path, source) as (feeder, depot, _), psycopg.connect(database) as late:
        late.execute("insert into p1 (id, v) values (nextval('p_id_seq'), 1)")
        connected.execute("insert into p (v) values (2), (3)")
        assert feeder.turn() is None
        late.commit()
        assert drained(feeder) == (3, 0)
        assert values(depot) == [1, 2, 3]


@pytest.mark.parametrize(
    ("table", "settings", "problem"),
    [
        ("none", {"along": "id"}, "no such table"),
        ("v", {"along": "id"}, "no table"),
        ("t", {"along": "nothing"}, "no column 'nothing'"),
        ("t", {"along": "v"}, "may be null"),
        ("u", {"along": "v"}, "may have the same v"),
        ("u", {"along": "id"}, "draw 20 numbers"),
        ("u", {"along": ("at", "id")}, "is a time"),
        ("t", {"along": "id", "settled": "transaction"}, "no transaction's number"),
        ("t", {"along": "id", "settled": "age", "age": "1 minute"}, "has no age"),
        ("w", {"along": "id"}, "lacks columns of the depot: v"),
    ],
)
def test_what_would_lose_rows_is_refused(tmp_path, database, connected, table, settings, problem):
    """By name, with what to do."""
    connected.execute("create view v as select * from t")
    connected.execute(
        "create table u (id serial primary key, v bigint not null, at timestamptz not null)"
    )
    connected.execute("alter sequence u_id_seq cache 20")
    connected.execute("create table w (id serial primary key)")
    with fed(tmp_path, Postgres(database, table, **settings)) as (feeder, _, _):
        with pytest.raises(SourceError, match=problem) as caught:
            feeder.turn()
        assert caught.value.hint


def test_a_server_that_is_not_there_is_an_error_and_comes_back(tmp_path, database, connected):
    """So is a connection that breaks."""
    gone = Postgres("host=127.0.0.1 port=1 user=nobody", "t", along="id", id="x")
    life = fed(tmp_path, gone)
    with life as (feeder, _, _), pytest.raises(SourceError, match="PostgreSQL refuses"):
        feeder.turn()
    insert(connected, 1)
    with fed(tmp_path, Postgres(database, "t", along="id", id="x")) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        insert(connected, 2)
        connected.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and datname = current_database()"
        )
        with pytest.raises(SourceError, match="PostgreSQL refuses"):
            feeder.turn()
        assert drained(feeder) == (1, 0)
        assert values(depot) == [1, 2]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_writers_in_any_order_lose_nothing(tmp_path, database, connected, seed):
    """Transactions that begin, insert, commit or roll back anyhow, and a reader in between."""
    dice = random.Random(seed)
    source = Postgres(database, "t", along="id", rows_max=4)
    open_, pending, committed = [], {}, set()
    numbers = iter(range(1000))
    with fed(tmp_path, source) as (feeder, depot, _):
        for _ in range(120):
            match dice.randrange(5):
                case 0 if len(open_) < 4:
                    open_.append(psycopg.connect(database))
                    pending[open_[-1]] = set()
                case 1 | 2 if open_:
                    writer, number = dice.choice(open_), next(numbers)
                    insert(writer, number)
                    pending[writer].add(number)
                case 3 if open_:
                    writer = open_.pop(dice.randrange(len(open_)))
                    if dice.random() < 0.3:
                        writer.rollback()
                    else:
                        writer.commit()
                        committed |= pending[writer]
                    writer.close()
                case _:
                    feeder.turn()
        for writer in open_:
            writer.rollback()  # a server ends connections that are closed some time later
            writer.close()
        drained(feeder)
        drained(feeder)
        found = values(depot)
        assert len(found) == len(set(found))
        assert set(found) == committed
        assert committed


def test_what_cannot_be_declared():
    """Arguments that do not go together."""
    for settings in (
        {"along": ()},
        {"along": "id", "settled": "hope"},
        {"along": "id", "age": "1 minute"},
        {"along": "id", "settled": "age"},
        {"along": "id", "rows_max": 0},
    ):
        with pytest.raises(DeclarationError):
            Postgres("", "t", **settings)
