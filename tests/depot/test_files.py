"""Files of records: formats, compression, lines, and what is no such file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depot_samples import all_rows, all_values, spec_of

from atoll.codec.records.codec import RecordCodec
from atoll.depot import Depot, FileSource, file_format
from atoll.depot import files as files_module
from atoll.depot.append import texts
from atoll.errors import RecordsRefusedError, UsageError

Open = Callable[..., Depot]
ROWS = 3000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in many small chunks."""
    monkeypatch.setattr(texts, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(texts, "_CSV_ROWS", 100)
    monkeypatch.setattr(files_module, "_ARROW_ROWS", 100)


def rows(bad_at: int | None = None) -> list[dict[str, Any]]:
    """Records, one of them perhaps bad."""
    made: list[dict[str, Any]] = [{"k": f"k{n} ü", "v": n} for n in range(ROWS)]
    if bad_at is not None:
        made[bad_at]["v"] = "bad"
    return made


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    """A file in the format of its name."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(records), path, row_group_size=700)
        return path
    if name.endswith(".arrow"):
        with pa.ipc.new_file(path, pa.Table.from_pylist(records[:1]).schema) as writer:
            writer.write_table(pa.Table.from_pylist(records), max_chunksize=200)
        return path
    if name.endswith(".csv"):
        text = "k,v\n" + "".join(f'"{row["k"]}",{row["v"]}\n' for row in records)
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.ndjson.gz", "a.JSON", "a.csv", "a.csv.gz", "a.parquet", "a.arrow"]
)
def test_formats(open_depot: Open, tmp_path: Path, name: str) -> None:
    """Every format brings the same records, in order, with progress to the end."""
    path = write(tmp_path / name, rows())
    seen: list[int] = []
    depot = open_depot(partitions=1)
    assert depot.append_file(path, progress=seen.append).count == ROWS
    assert all_rows(depot) == [rows()]
    assert seen == sorted(seen)
    assert len(seen) > 5
    assert seen[-1] == ROWS


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv"])
@pytest.mark.parametrize("bad_at", [0, 1234, ROWS - 1])
def test_bad_lines_are_named(open_depot: Open, tmp_path: Path, name: str, bad_at: int) -> None:
    """A bad record is refused with the file's line; nothing or the others are kept."""
    path = write(tmp_path / name, rows(bad_at))
    line = bad_at + (2 if "csv" in name else 1)
    depot = open_depot()
    with pytest.raises(RecordsRefusedError) as caught:
        depot.append_file(path)
    assert [item["line"] for item in caught.value.context["refusals"]] == [line]
    assert sum(depot.end_offsets()) == 0
    kept = depot.append_file(path, on_invalid="keep")
    assert (kept.count, kept.refused_count) == (ROWS - 1, 1)
    assert all_values(depot) == [n for n in range(ROWS) if n != bad_at]


def test_bytes_read(tmp_path: Path) -> None:
    """How far the file is read can be watched, also through compression."""
    for name in ("a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet", "a.arrow"):
        source = FileSource(write(tmp_path / name, rows()), RecordCodec(spec_of().schema))
        before = 0
        for _ in source:
            assert before <= source.bytes_read <= source.bytes_total
            before = source.bytes_read
        assert source.bytes_read == source.bytes_total


def test_odd_json_lines(tmp_path: Path) -> None:
    """A byte order mark, blank lines, carriage returns, long lines, no newline at the end."""
    path = tmp_path / "a.jsonl"
    long = "x" * 5000
    path.write_bytes(
        b'\xef\xbb\xbf{"v":1}\r\n\r\n\n{"v":2,"k":"' + long.encode() + b'"}\n{"v":"?"}\n{"v":3}'
    )
    checked = list(FileSource(path, RecordCodec(spec_of().schema)))
    assert [v for part in checked for v in part.batch.column("v").to_pylist()] == [1, 2, 3]
    assert [item.line for part in checked for item in part.refusals] == [5]


def test_odd_csv(tmp_path: Path) -> None:
    """Quoted newlines keep the count of lines; what is not UTF-8 is refused by record."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfk,v\n"two\nlines",1\n\nbad\xff,2\nx,bad\nok,3\n')
    checked = list(FileSource(path, RecordCodec(spec_of().schema)))
    assert [row for part in checked for row in part.batch.to_pylist()] == [
        {"k": "two\nlines", "v": 1},
        {"k": "ok", "v": 3},
    ]
    assert [item.line for part in checked for item in part.refusals] == [5, 6]


def test_empty_files(open_depot: Open, tmp_path: Path) -> None:
    """A file without records appends none."""
    depot = open_depot()
    for name in ("a.jsonl", "a.csv", "a.jsonl.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
        assert depot.append_file(path).count == 0
    pq.write_table(pa.table({"v": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    assert depot.append_file(tmp_path / "a.parquet").count == 0


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.parquet", b"no parquet"),
        ("a.csv", b"k,z\n1,2\n"),
        ("a.csv", b'k,v\n"open,2\n'),
        ("a.jsonl.gz", gzip.compress(b'{"v":1}\n' * 1000, mtime=0)[:-20]),
        ("a.jsonl", b"x" * 5000),
    ],
)
def test_files_that_are_not_what_they_say(
    open_depot: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    """A file that is broken as a whole is refused as a whole."""
    monkeypatch.setattr(files_module, "_LINE_BYTES_MAX", 3000)
    (tmp_path / name).write_bytes(data)
    depot = open_depot()
    with pytest.raises(UsageError) as caught:
        depot.append_file(tmp_path / name)
    assert caught.value.message
    assert sum(depot.end_offsets()) == 0


def test_format_names(tmp_path: Path) -> None:
    """The format is as declared, else by the name's ending, else asked for."""
    assert file_format("x/y.z", "CSV") == "csv"
    assert file_format("x/y.z", "jsonl.gz") == "jsonl"
    assert file_format(Path("x.Csv.GZ")) == "csv"
    for wrong in (("x", None), ("x.txt", None), ("x.csv", "avro"), ("x.gz", None)):
        with pytest.raises(UsageError):
            file_format(*wrong)
    with pytest.raises(UsageError, match="no such file"):
        FileSource(tmp_path / "none.csv", RecordCodec(spec_of().schema))
