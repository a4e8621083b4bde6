"""Snapshots of an Iceberg table: each once, and those that cannot be appended by name."""

import pyarrow as pa
import pytest
from feeding import drained, fed, values

from atoll.sources import Iceberg, SourceError

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog  # only where it is there


@pytest.fixture
def properties(tmp_path):
    """A catalog in a file."""
    (tmp_path / "warehouse").mkdir()
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }


@pytest.fixture
def table(properties):
    """A table of one column."""
    catalog = load_catalog("c", **properties)
    catalog.create_namespace("shop")
    yield catalog.create_table("shop.orders", schema=rows().schema)
    catalog.close()


def rows(*numbers):
    """Such rows."""
    return pa.table({"v": pa.array(numbers, pa.int64())})


def test_the_present_rows_come_first_then_each_snapshot(tmp_path, properties, table):
    """Over lives."""
    source = Iceberg("shop.orders", catalog="c", properties=properties)
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert feeder.turn() is None
        table.append(rows(1, 2))
        table.append(rows(3))
        assert feeder.turn().records == 3
        table.append(rows(4))
        table.append(rows(5))
        assert feeder.turn().records == 2
        assert feeder.turn() is None
    table.append(rows(6))
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        assert sorted(values(depot)[:3]) == [1, 2, 3]
        assert values(depot)[3:] == [4, 5, 6]
        assert feeder.lag().waiting == 0


def test_snapshots_may_be_read_from_one_on_and_so_many_at_a_time(tmp_path, properties, table):
    """Instead of all that is there."""
    for number in range(5):
        table.append(rows(number))
    first = table.snapshots()[0].snapshot_id
    source = Iceberg(
        "shop.orders", catalog="c", properties=properties, after=first, snapshots_max=3
    )
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert feeder.turn().records == 3
        assert drained(feeder) == (1, 0)
        assert values(depot) == [1, 2, 3, 4]


def test_a_snapshot_that_deletes_is_an_error_and_what_lies_before_is_read(
    tmp_path, properties, table
):
    """The hint says how to go on; so does an ancestor that has expired."""
    table.append(rows(1, 2))
    source = Iceberg("shop.orders", catalog="c", properties=properties)
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert drained(feeder) == (2, 0)
        table.append(rows(3))
        table.delete("v = 1")
        assert feeder.turn().records == 1
        with pytest.raises(SourceError, match="overwrites rows") as caught:
            feeder.turn()
        assert f"after={table.current_snapshot().snapshot_id}" in caught.value.hint
        assert values(depot)[2:] == [3]
    gone = Iceberg("shop.orders", catalog="c", properties=properties, after=17, id="gone")
    life = fed(tmp_path / "root", gone)
    with life as (feeder, _, _), pytest.raises(SourceError, match="not among the ancestors"):
        feeder.turn()


def test_a_table_that_lacks_columns_is_refused_and_one_with_more_is_read(
    tmp_path, properties, table
):
    """Columns that came later are null before."""
    life = fed(
        tmp_path / "root",
        Iceberg("shop.orders", catalog="c", properties=properties),
        "v long, w string",
    )
    with life as (feeder, _, _), pytest.raises(SourceError, match="lacks columns of the depot: w"):
        feeder.turn()
    table.append(rows(1))
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("v", pa.int64()), ("w", pa.string())]))
    table.append(pa.table({"v": [2], "w": ["x"]}))
    source = Iceberg("shop.orders", catalog="c", properties=properties, id="wider")
    with fed(tmp_path / "wider", source, "v long, w string") as (feeder, depot, _):
        assert drained(feeder) == (2, 0)
        assert sorted(map(str, depot.read(0, 0, 2).to_pylist())) == [
            "{'v': 1, 'w': None}",
            "{'v': 2, 'w': 'x'}",
        ]


def test_a_table_that_is_not_there_is_an_error(tmp_path, properties):
    """It may come."""
    life = fed(tmp_path / "root", Iceberg("shop.orders", catalog="c", properties=properties))
    with life as (feeder, _, _), pytest.raises(SourceError, match="does not answer"):
        feeder.turn()
