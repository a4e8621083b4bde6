"""The Iceberg sink against the contract, and what only it does."""

from __future__ import annotations

import pyarrow as pa
import pytest

import atoll
from atoll import agg, start
from atoll.errors import NotFoundError, SinkError
from atoll.sinks import Iceberg, Opening, SinkRows, iceberg_snapshot, sink_kinds
from atoll.testing import TopologyTestDriver
from atoll.testing.sinks import ALL_TYPES, SinkContract, parcel_of

catalogs = pytest.importorskip("pyiceberg.catalog")

IDS = SinkRows(pa.schema([("id", pa.int64())]))
OPENING = Opening("m/t/s/0", 1, IDS)


def ids(*numbers):
    """Rows."""
    return pa.table({"id": pa.array(numbers, pa.int64())})


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
def rows_of(properties):
    """Reads a table, perhaps as of a snapshot."""
    catalog = catalogs.load_catalog("c", **properties)

    def read(name, snapshot=None):
        if not catalog.table_exists(name):
            return []
        return catalog.load_table(name).scan(snapshot_id=snapshot).to_arrow().to_pylist()

    yield read
    catalog.close()


class TestIceberg(SinkContract):
    """Rows appended, and a PState followed."""

    follows_changes = True
    types = tuple(ALL_TYPES)

    @pytest.fixture(autouse=True)
    def _catalog(self, properties, rows_of):
        self.properties, self.rows_of = properties, rows_of

    def make_sink(self, target):
        """A table of that name."""
        return Iceberg(f"n.{target}", "c", self.properties)

    def make_changes_sink(self, target):
        """The value's column as the contract calls it."""
        return Iceberg(f"n.{target}", "c", self.properties, value="new")

    def held(self, target):
        """In the order of their ids: files of a table have none."""
        return sorted(self.rows_of(f"n.{target}"), key=lambda row: row.get("id", 0))


def test_a_snapshot_of_the_table_is_the_pstate_as_of_a_microbatch(properties, rows_of):
    """A module whose PState is a table: as it is, and as it was."""
    shop = atoll.Module("shop")
    orders = shop.depot("orders", "shop string, item string, cents long", partitions=1)
    mb = shop.microbatch("mb")
    sold = mb.pstate("sold", dict[str, dict[str, int]])
    rows = mb.source(orders, start_from=start.beginning())
    rows.aggregate(sold["shop"]["item"], agg.sum("cents"))
    rows.write_to(Iceberg("shop.rows", "c", properties), name="rows")
    sold.changes("shop", "item").write_to(Iceberg("shop.sold", "c", properties), name="sold")

    def table(microbatch=None):
        at = None
        if microbatch is not None:
            at = iceberg_snapshot("shop.sold", microbatch, catalog="c", properties=properties)
        found = rows_of("shop.sold", at)
        return {(row["shop"], row["item"]): row["value"] for row in found}

    with TopologyTestDriver(shop) as driver:
        for item, cents in (("tea", 1), ("cup", 5), ("tea", 2)):
            records = [{"shop": each, "item": item, "cents": cents} for each in "ab"]
            driver.depot("orders").append(records)
            driver.microbatch()
            driver.write_sinks()
        now = {(each, item): n for each in "ab" for item, n in (("tea", 3), ("cup", 5))}
        assert table() == now
        assert table(2) == {**now, ("a", "tea"): 1, ("b", "tea"): 1}
        assert table(1) == {("a", "tea"): 1, ("b", "tea"): 1}
        with pytest.raises(NotFoundError, match="no snapshot of microbatch 0"):
            table(0)
    assert sorted(row["cents"] for row in rows_of("shop.rows")) == [1, 1, 2, 2, 5, 5]


def test_changes_may_be_appended_as_rows(properties, rows_of):
    """A log of what changed, instead of what is."""
    rows = SinkRows(
        pa.schema([("k", pa.string()), ("old", pa.int64()), ("new", pa.int64())]),
        ("k",),
        "entries",
    )
    writer = Iceberg("n.log", "c", properties, follow=False).open(Opening("m/t/s/0", 1, rows))
    changes = [{"k": "a", "old": None, "new": 1}, {"k": "a", "old": 1, "new": None}]
    for number, each in enumerate(changes, 1):
        writer.write(parcel_of(number, pa.Table.from_pylist([each], rows.schema)))
    writer.close()
    assert sorted(rows_of("n.log"), key=str) == sorted(changes, key=str)


def test_a_table_that_keeps_a_pstate_is_one_sinks_alone(properties):
    """Another sink, or a table that somebody made, is refused."""
    rows = SinkRows(
        pa.schema([("k", pa.string()), ("old", pa.int64()), ("new", pa.int64())]),
        ("k",),
        "entries",
    )
    sink = Iceberg("n.t", "c", properties)
    sink.open(Opening("m/t/s/0", 1, rows)).close()
    with pytest.raises(SinkError, match="a table of m/t/s/0"):
        sink.open(Opening("m/t/s/1", 1, rows))
    with pytest.raises(SinkError, match="a table of m/t/s/0"):
        sink.open(Opening("m/t/other/1", 1, IDS))
    with pytest.raises(SinkError, match="for a field of a struct"):
        sink.check(SinkRows(pa.schema([("a.b", pa.string()), *rows.schema]), ("a.b",), "entries"))


def test_commits_are_never_repeated_by_the_library(properties, rows_of):
    """Also in a table that somebody made: a second writer is refused, and rows come once."""
    catalog = catalogs.load_catalog("c", **properties)
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", schema=ids().schema)
    sink = Iceberg("n.t", "c", properties)
    first, second = sink.open(OPENING), sink.open(Opening("m/t/s/0", 2, IDS))
    made.refresh()
    assert made.properties["commit.retry.num-retries"] == "0"
    first.write(parcel_of(1, ids(1)))
    second._table.refresh = lambda: None  # it looked before the first one wrote
    with pytest.raises(SinkError, match="another writer was faster"):
        second.write(parcel_of(1, ids(1)))
    assert rows_of("n.t") == [{"id": 1}]
    for each in (first, second):
        each.close()
    catalog.close()


def test_it_is_found_by_its_kind():
    """In the registry of sinks."""
    assert sink_kinds()["iceberg"] is Iceberg


def test_secrets_are_not_shown(properties):
    """Properties of a catalog hold credentials."""
    sink = Iceberg("n.t", "c", {**properties, "credential": "canary"})
    assert "canary" not in repr(sink) + sink.target
