"""Versions of a Delta table: each once, and those that cannot be appended by name."""

import datetime as dt

import pyarrow as pa
import pytest
from feeding import drained, fed, values

from atoll.sources import Delta, SourceError

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def table(tmp_path):
    """Where a table is to be."""
    return str(tmp_path / "table")


def put(table, *numbers, **settings):
    """A version with such rows."""
    rows = pa.table({"v": pa.array(numbers, pa.int64())})
    deltalake.write_deltalake(table, rows, mode="append", **settings)


def test_the_present_rows_come_first_then_each_version(tmp_path, table):
    """Over lives; a table that is optimized has nothing new."""
    put(table, 1, 2)
    put(table, 3)
    with fed(tmp_path / "root", Delta(table)) as (feeder, depot, _):
        assert feeder.turn().records == 3
        assert feeder.turn() is None
        put(table, 4)
        put(table, 5)
        assert feeder.turn().records == 2
        assert feeder.shown()["version"] == 3
    deltalake.DeltaTable(table).optimize.compact()
    put(table, 6)
    with fed(tmp_path / "root", Delta(table)) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        assert sorted(values(depot)) == [1, 2, 3, 4, 5, 6]
        assert values(depot)[3:] == [4, 5, 6]
        assert feeder.lag().waiting == 0


def test_versions_may_be_read_from_one_on_and_so_many_at_a_time(tmp_path, table):
    """Instead of all that is there."""
    for number in range(6):
        put(table, number)
    source = Delta(table, after=1, versions_max=2)
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert feeder.turn().records == 2
        assert values(depot) == [2, 3]
        assert feeder.lag().waiting == 2
        assert drained(feeder) == (2, 0)


def test_partitions_and_columns_that_came_later(tmp_path, table):
    """The first are in the log alone, the second in newer files alone."""
    day = pa.array([dt.date(2026, 1, 31), dt.date(2026, 2, 1)])
    first = pa.table({"v": [1, 2], "day": day, "k": ["a b", None]})
    deltalake.write_deltalake(table, first, partition_by=["day", "k"])
    deltalake.write_deltalake(table, first, mode="append")
    more = first.append_column("more", pa.array(["x", "y"]))
    deltalake.write_deltalake(table, more, mode="append", schema_mode="merge")
    ddl = "v int, day date, k string, more string"
    with fed(tmp_path / "root", Delta(table, after=0), ddl) as (feeder, depot, _):
        assert drained(feeder) == (4, 0)
        rows = depot.read(0, 0, 4).to_pylist()
        assert {(row["v"], row["day"].day, row["k"], row["more"]) for row in rows} == {
            (1, 31, "a b", None),
            (1, 31, "a b", "x"),
            (2, 1, None, None),
            (2, 1, None, "y"),
        }


def test_a_version_that_deletes_is_an_error_and_what_lies_before_is_read(tmp_path, table):
    """The hint says how to go on."""
    put(table, 1, 2)
    with fed(tmp_path / "root", Delta(table)) as (feeder, depot, _):
        assert drained(feeder) == (2, 0)
        put(table, 3)
        deltalake.DeltaTable(table).delete("v = 1")
        put(table, 4)
        assert feeder.turn().records == 1
        with pytest.raises(SourceError, match="version 2 deletes or updates") as caught:
            feeder.turn()
        assert caught.value.context["problem"] == "changed"
        assert values(depot)[2:] == [3]
    with fed(tmp_path / "root", Delta(table, after=2, id="again")) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        assert values(depot)[3:] == [4]


def test_a_change_data_feed_is_read_with_what_changed(tmp_path, table):
    """Deletes and updates as rows that say so."""
    put(table, 1, 2, configuration={"delta.enableChangeDataFeed": "true"})
    ddl = "v long, _change_type string, _commit_version long"
    with fed(tmp_path / "root", Delta(table, changes=True), ddl) as (feeder, depot, _):
        assert drained(feeder) == (2, 0)
        deltalake.DeltaTable(table).update(predicate="v = 1", updates={"v": "10"})
        deltalake.DeltaTable(table).delete("v = 2")
        put(table, 7)
        assert drained(feeder) == (4, 0)
        rows = [tuple(row.values()) for row in depot.read(0, 0, 6).to_pylist()]
        assert sorted(rows[:2]) == [(1, "insert", 0), (2, "insert", 0)]
        assert sorted(rows[2:]) == [
            (1, "update_preimage", 1),
            (2, "delete", 2),
            (7, "insert", 3),
            (10, "update_postimage", 1),
        ]


def test_what_cannot_be_read_is_said(tmp_path, table):
    """A table that is not there, lacks columns, has no feed, was cleaned up or replaced."""

    def problem(source, ddl="v long"):
        life = fed(tmp_path / "root", source, ddl)
        with life as (feeder, _, _), pytest.raises(SourceError) as caught:
            drained(feeder)
        return caught.value.message

    assert "does not answer" in problem(Delta(table))
    put(table, 1)
    put(table, 2)
    assert "lacks columns of the depot: w" in problem(Delta(table), "v long, w long")
    assert "no change data feed" in problem(Delta(table, changes=True))
    with fed(tmp_path / "root", Delta(table)) as (feeder, _, _):
        assert drained(feeder) == (2, 0)
    put(table, 3)
    put(table, 4)
    deltalake.DeltaTable(table).create_checkpoint()
    (tmp_path / "table" / "_delta_log" / f"{2:020d}.json").unlink()
    assert "the log of version 2 was cleaned up" in problem(Delta(table))


def test_another_table_in_its_place_is_an_error(tmp_path, table):
    """Its versions are not those that were read."""
    put(table, 1)
    with fed(tmp_path / "root", Delta(table)) as (feeder, _, _):
        assert drained(feeder) == (1, 0)
    (tmp_path / "table").rename(tmp_path / "before")
    put(table, 1)
    put(table, 2)
    life = fed(tmp_path / "root", Delta(table))
    with life as (feeder, _, _), pytest.raises(SourceError, match="another table"):
        feeder.turn()


def test_rows_that_do_not_fit_are_set_aside_with_version_and_file(tmp_path, table):
    """As those of files."""
    rows = pa.table({"v": pa.array([1, None, 3], pa.int64())})
    put(table, 0)
    deltalake.write_deltalake(table, rows, mode="append")
    source = Delta(table, after=0)
    with fed(tmp_path / "root", source, "v long NOT NULL", setting_aside=True) as life:
        feeder, depot, aside = life
        assert drained(feeder) == (2, 1)
        assert values(depot) == [1, 3]
        row = aside.read(0, 0, 1).to_pylist()[0]
        assert row["line"].startswith(f"{table} version 1, part-")
        assert row["line"].endswith(".parquet:2")
