"""The Delta sink against the contract, and what only it does."""

from __future__ import annotations

import pyarrow as pa
import pytest

import atoll
from atoll import agg, start
from atoll.errors import NotFoundError, SinkError
from atoll.sinks import Delta, Opening, SinkRows, delta_version, sink_kinds
from atoll.testing import TopologyTestDriver
from atoll.testing.sinks import SinkContract, parcel_of

deltalake = pytest.importorskip("deltalake")

IDS = SinkRows(pa.schema([("id", pa.int64())]))
OPENING = Opening("m/t/s/0", 1, IDS)


def ids(*numbers):
    """Rows."""
    return pa.table({"id": pa.array(numbers, pa.int64())})


class TestDelta(SinkContract):
    """Rows appended, and a PState followed."""

    follows_changes = True

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def make_sink(self, target):
        """A table of that name."""
        return Delta(str(self.folder / target))

    def make_changes_sink(self, target):
        """The value's column as the contract calls it."""
        return Delta(str(self.folder / target), value="new")

    def held(self, target):
        """In the order of the files, which is that of versions."""
        if not (self.folder / target).exists():
            return []
        rows = deltalake.DeltaTable(self.folder / target).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row.get("id", 0))


def test_a_version_of_the_table_is_the_pstate_as_of_a_microbatch(tmp_path):
    """A module whose PState is a table: as it is, and as it was."""
    uri = str(tmp_path / "sold")
    shop = atoll.Module("shop")
    orders = shop.depot("orders", "item string, cents long", partitions=1)
    mb = shop.microbatch("mb")
    sold = mb.pstate("sold", dict[str, int])
    rows = mb.source(orders, start_from=start.beginning())
    rows.aggregate(sold["item"], agg.sum("cents"))
    rows.write_to(Delta(f"{uri}_rows", partition_by=("item",)), name="rows")
    sold.changes("item").write_to(Delta(uri), name="sold")

    def table(version=None):
        found = deltalake.DeltaTable(uri, version).to_pyarrow_table().to_pylist()
        return {row["item"]: row["value"] for row in found}

    with TopologyTestDriver(shop) as driver:
        for item, cents in (("tea", 1), ("cup", 5), ("tea", 2)):
            driver.depot("orders").append([{"item": item, "cents": cents}])
            driver.microbatch()
            driver.write_sinks()
        assert table() == {"tea": 3, "cup": 5}
        assert table(delta_version(uri, 2)) == {"tea": 1, "cup": 5}
        assert table(delta_version(uri, 1)) == {"tea": 1}
        with pytest.raises(NotFoundError, match="no version of microbatch 0"):
            delta_version(uri, 0)
        status = driver.app.topology("mb").status()["sinks"]["sold"]
        assert (status["kind"], status["target"], status["failures"]) == ("delta", uri, 0)
    appended = deltalake.DeltaTable(f"{uri}_rows")
    assert sorted(appended.to_pyarrow_table()["cents"].to_pylist()) == [1, 2, 5]
    assert appended.metadata().partition_columns == ["item"]


def test_changes_may_be_appended_as_rows(tmp_path):
    """A log of what changed, instead of what is."""
    rows = SinkRows(
        pa.schema([("k", pa.string()), ("old", pa.int64()), ("new", pa.int64())]),
        ("k",),
        "entries",
    )
    sink = Delta(str(tmp_path / "log"), follow=False)
    writer = sink.open(Opening("m/t/s/0", 1, rows))
    changes = [{"k": "a", "old": None, "new": 1}, {"k": "a", "old": 1, "new": None}]
    for number, each in enumerate(changes, 1):
        writer.write(parcel_of(number, pa.Table.from_pylist([each], rows.schema)))
    found = deltalake.DeltaTable(sink.uri).to_pyarrow_table().to_pylist()
    assert sorted(found, key=str) == sorted(changes, key=str)


def test_names_that_would_end_an_expression_are_only_names(tmp_path):
    """Keys and fields of entries."""
    evil = 'a" or 1=1 --.b'
    value = pa.struct([("f.1", pa.int64()), ('g"', pa.string())])
    rows = SinkRows(
        pa.schema([(evil, pa.string()), ("old", value), ("new", value)]), (evil,), "entries"
    )
    writer = Delta(str(tmp_path / "t")).open(Opening("m/t/s/0", 1, rows))
    for number, new in enumerate(({"f.1": 1, 'g"': "x"}, {"f.1": 2, 'g"': "y"}), 1):
        change = {evil: "k", "old": None, "new": new}
        writer.write(parcel_of(number, pa.Table.from_pylist([change], rows.schema)))
    found = deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist()
    assert found == [{evil: "k", "f.1": 2, 'g"': "y"}]


def test_a_table_that_keeps_a_pstate_is_one_sinks_alone(tmp_path):
    """Another sink, or a table that somebody made, is refused."""
    rows = SinkRows(
        pa.schema([("k", pa.string()), ("old", pa.int64()), ("new", pa.int64())]),
        ("k",),
        "entries",
    )
    sink = Delta(str(tmp_path / "t"))
    sink.open(Opening("m/t/s/0", 1, rows))
    with pytest.raises(SinkError, match="a table of m/t/s/0"):
        sink.open(Opening("m/t/s/1", 1, rows))
    with pytest.raises(SinkError, match="a table of m/t/s/0"):
        sink.open(Opening("m/t/other/1", 1, IDS))
    deltalake.write_deltalake(tmp_path / "mine", ids(1))
    with pytest.raises(SinkError, match="a table of somebody else"):
        Delta(str(tmp_path / "mine")).open(Opening("m/t/s/0", 1, rows))


def test_several_sinks_append_to_one_table(tmp_path):
    """Each has a number of its own, and versions are told apart by their identities."""
    sink = Delta(str(tmp_path / "t"))
    others = Opening("m/t/o/0", 1, IDS)
    first, second = sink.open(OPENING), sink.open(others)
    first.write(parcel_of(1, ids(1)))
    second.write(parcel_of(1, ids(2)))
    first.write(parcel_of(2, ids(3)))
    assert sorted(deltalake.DeltaTable(sink.uri).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(SinkError, match="2 sinks write"):
        delta_version(sink.uri, 3)
    assert delta_version(sink.uri, 3, identity=others.identity) == 2
    assert delta_version(sink.uri, 7, identity=OPENING.identity) == 3


def test_it_is_found_by_its_kind():
    """In the registry of sinks."""
    assert sink_kinds()["delta"] is Delta


def test_secrets_are_not_shown_and_mistakes_are_told(tmp_path):
    """Options of a bucket hold keys; a folder that cannot be a table is an error."""
    sink = Delta("s3://bucket/out", options={"AWS_SECRET_ACCESS_KEY": "canary"})
    assert "canary" not in repr(sink) + sink.target
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="refuses"):
        Delta(str(tmp_path / "file")).open(OPENING)


def test_a_number_is_looked_up_in_the_version_that_is_written_on(tmp_path):
    """Of two writers that both looked first the log refuses one."""
    sink = Delta(str(tmp_path / "t"))
    first, second = sink.open(OPENING), sink.open(Opening("m/t/s/0", 2, IDS))
    first.write(parcel_of(1, ids(1)))
    second._table.update_incremental = lambda: None  # it looked before the first one wrote
    with pytest.raises(SinkError, match="another writer was faster"):
        second.write(parcel_of(1, ids(1)))
    assert deltalake.DeltaTable(sink.uri).to_pyarrow_table()["id"].to_pylist() == [1]
