"""Files of a folder: found, read once, and never silently read again."""

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet
import pytest
from feeding import drained, fed, values

from atoll.errors import DeclarationError
from atoll.sources import Files, SourceError
from atoll.sources.listing import place_of


def files(folder, pattern="*", **settings):
    """A source that does not wait."""
    return Files(folder / pattern, settled="0 seconds", **settings)


@pytest.fixture
def folder(tmp_path):
    """An empty folder of files."""
    made = tmp_path / "in"
    made.mkdir()
    return made


def lines(*numbers):
    """JSON lines of one column."""
    return "".join(json.dumps({"v": number}) + "\n" for number in numbers)


def test_every_format_is_read_once_in_the_order_of_names(tmp_path, folder):
    """Also those that come between two looks and lie between those that were read."""
    (folder / "a.csv").write_text("v\n1\n2\n")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(lines(5).encode()))
    pyarrow.parquet.write_table(pa.table({"v": [6, 7]}), folder / "d.parquet")
    with pa.OSFile(str(folder / "e.arrow"), "wb") as sink:
        table = pa.table({"v": [8]})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    with fed(tmp_path / "root", files(folder)) as (feeder, depot, _):
        assert drained(feeder) == (6, 0)
        (folder / "b.jsonl").write_text(lines(3, 4))
        assert drained(feeder) == (2, 0)
        assert drained(feeder) == (0, 0)
        assert values(depot) == [1, 2, 5, 6, 7, 8, 3, 4]
        assert feeder.shown() == {"files": 5, "last": "b.jsonl"}
    with fed(tmp_path / "root", files(folder)) as (feeder, depot, _):
        assert drained(feeder) == (0, 0)


def test_appends_are_bounded_and_go_by_time_when_asked(tmp_path, folder):
    """So many files or bytes at once; older files first."""
    for number, name in enumerate("cab"):
        (folder / f"{name}.jsonl").write_text(lines(number))
        os.utime(folder / f"{name}.jsonl", (number + 1, number + 1))
    source = files(folder, order="time", files_max=2)
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert feeder.turn().records == 2
        assert values(depot) == [0, 1]
        assert drained(feeder) == (1, 0)
    with fed(tmp_path / "root2", files(folder, bytes_max=1)) as (feeder, depot, _):
        assert feeder.turn().records == 1
        assert values(depot) == [1]


def test_a_file_that_is_being_written_is_left_with_all_behind_it(tmp_path, folder):
    """Else the order would depend on when somebody looked."""
    (folder / "a.jsonl").write_text(lines(1))
    (folder / "b.jsonl").write_text(lines(2))
    os.utime(folder / "b.jsonl", (1, 1))
    source = Files(folder / "*", settled="1 hour")
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert feeder.turn() is None
        assert feeder.lag().waiting == 2
        os.utime(folder / "a.jsonl", (1, 1))
        assert drained(feeder) == (2, 0)
        assert values(depot) == [1, 2]


def test_hidden_and_unfinished_names_are_not_meant(folder):
    """And ``*`` does not go into folders, as ``**`` does."""
    (folder / "deep").mkdir()
    for name in ("a.csv", ".a.csv", "_a.csv", "a.csv.tmp", "deep/b.csv"):
        (folder / name).write_text("v\n")

    def found(pattern):
        return sorted(each.name for each in place_of(folder / pattern, {}).found())

    assert found("*.csv") == ["a.csv"]
    assert found("**/*.csv") == ["a.csv", "deep/b.csv"]
    assert found("*") == ["a.csv"]


def test_a_file_that_changed_after_it_was_read_is_an_error_by_name(tmp_path, folder):
    """Nothing more is read until it is as it was, or gone; what is stored stays."""
    (folder / "a.jsonl").write_text(lines(1))
    with fed(tmp_path / "root", files(folder)) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        before = (folder / "a.jsonl").stat()
        (folder / "a.jsonl").write_text(lines(1, 2))
        (folder / "b.jsonl").write_text(lines(3))
        with pytest.raises(SourceError, match="changed after it was read") as caught:
            feeder.turn()
        assert caught.value.context == {"problem": "changed", "place": f"{folder}/a.jsonl"}
        (folder / "a.jsonl").write_text(lines(1))
        os.utime(folder / "a.jsonl", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert drained(feeder) == (1, 0)
        assert values(depot) == [1, 3]
        (folder / "a.jsonl").unlink()
        assert drained(feeder) == (0, 0)


def test_a_record_that_does_not_fit_stops_the_source_until_it_is_corrected(tmp_path, folder):
    """Nothing of its append is stored; corrected, the file is read as it is then."""
    (folder / "a.jsonl").write_text(lines(1))
    (folder / "b.jsonl").write_text(lines(2) + '{"v": "x"}\n')
    with fed(tmp_path / "root", files(folder)) as (feeder, depot, _):
        with pytest.raises(SourceError, match="does not fit") as caught:
            feeder.turn()
        assert caught.value.context["place"] == f"{folder}/b.jsonl"
        assert caught.value.context["line"] == 2
        assert depot.end_offsets() == (0,)
    (folder / "b.jsonl").write_text(lines(2, 3, 4))
    with fed(tmp_path / "root", files(folder)) as (feeder, depot, _):
        with pytest.raises(SourceError, match="has changed since it was found"):
            feeder.turn()
        assert drained(feeder) == (4, 0)
        assert values(depot) == [1, 2, 3, 4]


def test_records_that_do_not_fit_are_set_aside_with_file_line_and_text(tmp_path, folder):
    """All of them, however many stand together, and the others are stored."""
    bad = [f'{{"v": "{number}"}}\n' for number in range(500)]
    (folder / "a.jsonl").write_text(lines(1) + "".join(bad) + lines(2))
    (folder / "b.csv").write_text("v\n" + "x\n" * 300 + "3\n")
    pyarrow.parquet.write_table(pa.table({"v": ["a"] * 250}), folder / "c.parquet")
    source = files(folder)
    with fed(tmp_path / "root", source, setting_aside=True) as (feeder, depot, aside):
        assert drained(feeder) == (3, 1050)
        assert values(depot) == [1, 2, 3]
        rows = aside.read(0, 0, aside.end_offsets()[0]).to_pylist()
        assert [row["line"] for row in rows[:2]] == [f"{folder}/a.jsonl:{n}" for n in (2, 3)]
        assert [json.loads(row["row"]) for row in rows[:2]] == [{"v": "0"}, {"v": "1"}]
        assert rows[0]["error"] == "column v: expected int, got str"
        assert rows[0]["depot"] == "d"
        assert len({row["line"] for row in rows}) == 1050
        assert rows[500]["line"] == f"{folder}/b.csv:2"
        assert rows[1049]["line"] == f"{folder}/c.parquet:250"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", b"w\n1\n", "header"),
        ("a.parquet", b"PAR1", "no Parquet"),
        ("a.jsonl.gz", gzip.compress(b'{"v": 1}\n' * 999, mtime=0)[:-20], "compression is damaged"),
        ("a.dat", b"", "format"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_an_error_by_name(
    tmp_path, folder, name, content, problem
):
    """It is not half read."""
    (folder / name).write_bytes(content)
    with fed(tmp_path / "root", files(folder)) as (feeder, depot, _):
        with pytest.raises(SourceError, match=problem) as caught:
            feeder.turn()
        assert caught.value.context["place"] == f"{folder}/{name}"
        assert caught.value.context["problem"] == "unreadable"
        assert depot.end_offsets() == (0,)


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    """It may come."""
    with fed(tmp_path / "root", Files(tmp_path / "none" / "*")) as (feeder, _, _):
        with pytest.raises(SourceError, match="no such folder"):
            feeder.turn()
        (tmp_path / "none").mkdir()
        assert feeder.turn() is None


def test_what_cannot_be_declared(tmp_path):
    """A pattern without a wild card, other orders and formats."""
    for arguments in (
        {"path": tmp_path / "a.csv"},
        {"path": "in/*", "order": "size"},
        {"path": "in/*", "format": "xml"},
        {"path": "in/*", "files_max": 0},
        {"path": "in/*", "poll": "soon"},
    ):
        with pytest.raises(DeclarationError):
            Files(**arguments)


def test_a_bucket_is_read_by_its_store(tmp_path, folder):
    """By names below the prefix, each version whole; here a store that lies in a folder."""
    pytest.importorskip("obstore")
    (folder / "day=1").mkdir()
    (folder / "day=1" / "a.jsonl").write_text(lines(1, 2))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines(3).encode()))
    (folder / "c.txt").write_text("no")
    pyarrow.parquet.write_table(pa.table({"v": [4]}), folder / "day=1" / "d.parquet")
    source = Files(f"memory:///{folder}/**/*")  # its store is another one below
    source.files._store = _local_store(folder)
    source.format = None
    source.files._meant = place_of(f"memory:///{folder}/**/*.[jp]*", {})._meant
    with fed(tmp_path / "root", source) as (feeder, depot, _):
        assert drained(feeder) == (4, 0)
        assert values(depot) == [3, 1, 2, 4]
        (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines(3, 9).encode()))
        with pytest.raises(SourceError, match="changed after it was read"):
            feeder.turn()


def _local_store(folder):
    from obstore.store import LocalStore

    return LocalStore(folder)
