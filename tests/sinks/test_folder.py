"""The folder sink against the contract, on a disk and in a bucket, and what only it does."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from atoll.errors import DamageError, SinkError
from atoll.sinks import Folder, Opening, SinkRows, read_folder
from atoll.storage.numbered import number_name
from atoll.testing.sinks import SinkContract, parcel_of

ROWS = SinkRows(pa.schema([("id", pa.int64())]))
OPENING = Opening("m/t/s/0", 1, ROWS)


class TestParquetFolder(SinkContract):
    """Parquet files on a disk."""

    format = "parquet"

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def make_sink(self, target):
        """A folder of that name."""
        return Folder(str(self.folder / target), self.format)

    def held(self, target):
        """What readers by manifest see; a reader without them sees the same whole microbatches."""
        rows = read_folder(str(self.folder / target)).to_table().to_pylist()
        data = self.folder / target / "data"
        if data.is_dir():
            seen = ds.dataset(data, format="ipc" if self.format == "arrow" else "parquet")
            assert seen.count_rows() == len(rows)
        return rows


class TestArrowFolder(TestParquetFolder):
    """Arrow files on a disk."""

    format = "arrow"


def numbers(first, stop):
    """Rows."""
    return pa.table({"id": pa.array(range(first, stop), pa.int64())})


@pytest.fixture
def written(tmp_path):
    """A folder with three microbatches."""
    url = str(tmp_path / "out")
    writer = Folder(url).open(OPENING)
    for number in (1, 2, 3):
        writer.write(parcel_of(number, numbers(number * 10, number * 10 + 5)))
    return tmp_path / "out"


def test_manifests_say_what_was_written(written):
    """Number, microbatch, timeline, rows and keys; and the file says whose it is itself."""
    reader = read_folder(str(written), after=1)
    assert [each["number"] for each in reader.manifests] == [2, 3]
    assert reader.last == 3
    assert reader.manifests[0]["microbatch"] == 6
    assert reader.manifests[0]["records"] == 5
    [file] = reader.manifests[0]["files"]
    table = next(reader.tables())
    assert table.schema.metadata[b"atoll.number"] == b"2"
    assert file["name"] == f"data/{number_name(2)}.parquet"


def test_what_is_missing_or_damaged_is_told(written):
    """A manifest between others, a file, a byte: each is an error that names the file."""
    file = written / "data" / f"{number_name(2)}.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DamageError, match="is damaged"):
        read_folder(str(written)).to_table()
    file.unlink()
    with pytest.raises(DamageError, match="is missing"):
        read_folder(str(written)).to_table()
    (written / "_atoll" / f"{number_name(2)}.json").unlink()
    with pytest.raises(DamageError, match="is missing"):
        read_folder(str(written))


def test_a_writer_that_died_before_its_manifest_is_gone_on_from(written):
    """The file is there and its manifest is not: readers by manifest do not see it, then once."""
    (written / "_atoll" / f"{number_name(3)}.json").unlink()
    assert read_folder(str(written)).last == 2
    writer = Folder(str(written)).open(OPENING)
    assert writer.last_written() == 2
    writer.write(parcel_of(3, numbers(30, 35)))
    assert list(range(30, 35)) == read_folder(str(written), after=2).to_table()["id"].to_pylist()


def test_another_sinks_folder_and_other_files_are_refused(written, tmp_path):
    """A folder is one sink's for life; one with other files is nobody's."""
    with pytest.raises(SinkError, match="the folder of another sink, m/t/s/0"):
        Folder(str(written)).open(Opening("m/t/s/1", 1, ROWS))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(SinkError, match="holds files that no sink wrote"):
        Folder(str(tmp_path / "other")).open(OPENING)


def test_a_process_killed_while_it_claimed_the_folder_leaves_it_free(tmp_path):
    """An unfinished file is no other file."""
    (tmp_path / "out" / "_atoll").mkdir(parents=True)
    (tmp_path / "out" / "_atoll" / ".tmp-0123").write_text("{")
    Folder(str(tmp_path / "out")).open(OPENING).write(parcel_of(1, numbers(0, 3)))
    identity = json.loads((tmp_path / "out" / "_atoll" / "identity.json").read_text())
    assert identity == {"identity": "m/t/s/0"}


def test_an_unknown_format_is_refused_where_it_is_declared():
    """Not when the first rows come."""
    with pytest.raises(SinkError, match="'csv' files cannot be written"):
        Folder("/data", "csv")


def test_secrets_are_not_shown():
    """Options of a bucket hold keys."""
    sink = Folder("s3://bucket/out", options={"secret_access_key": "canary"})
    assert "canary" not in repr(sink) + sink.target
