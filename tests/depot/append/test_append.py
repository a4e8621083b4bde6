"""Appending and reading: every form of data, offsets, order, refusals, ranges, reopening."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from depot_samples import all_rows, all_values, numbers, segments, spec_of, table

from atoll.depot import Depot, DepotReader, read_block, read_blocks
from atoll.errors import DamageError, DepotError, RecordsRefusedError, StoppedError, UsageError

Open = Callable[..., Depot]


@pytest.mark.parametrize(
    "data",
    [
        {"k": "a", "v": 1},
        [{"k": "a", "v": 1}],
        ({"k": "a", "v": 1} for _ in range(1)),
        pa.table({"k": ["a"], "v": [1]}),
        pa.record_batch({"v": [1], "k": ["a"]}),
        pd.DataFrame({"k": ["a"], "v": [1]}),
    ],
)
def test_every_form_of_data(open_depot: Open, data: Any) -> None:
    """A record may come alone, in any iterable, as Arrow or as a DataFrame."""
    depot = open_depot(partitions=1)
    appended = depot.append(data)
    assert (appended.count, appended.offsets) == (1, {0: (0, 1)})
    assert all_rows(depot) == [[{"k": "a", "v": 1}]]


@pytest.mark.parametrize("data", [3, "text", b"bytes", None])
def test_what_is_no_data(open_depot: Open, data: Any) -> None:
    """What holds no records is refused in words."""
    with pytest.raises(UsageError):
        open_depot().append(data)


def test_nothing_to_append(open_depot: Open) -> None:
    """No records, no offsets, no error."""
    depot = open_depot()
    for data in ([], pa.table({"k": pa.array([], pa.string())})):
        assert (depot.append(data).count, depot.append(data).offsets) == (0, {})


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
def test_order_and_offsets(open_depot: Open, partitions: int) -> None:
    """Small, middle and large appends in turn: one order per key, offsets without a gap."""
    depot = open_depot(partitions=partitions)
    first, ends = 0, [0] * partitions
    for count in (1, 3, 70, 1, 5000, 2, 1):
        data = table(first, count) if count > 100 else numbers(first, count)
        appended = depot.append(data)
        assert sum(end - start for start, end in appended.offsets.values()) == count
        for partition, (start, end) in appended.offsets.items():
            assert start == ends[partition]
            ends[partition] = end
        first += count
    assert depot.end_offsets() == tuple(ends)
    rows = all_rows(depot)
    for part in rows:
        by_key: dict[str, list[int]] = {}
        for row in part:
            by_key.setdefault(row["k"], []).append(row["v"])
        assert all(values == sorted(values) or len(values) > 1000 for values in by_key.values())
    assert all_values(depot) == list(range(first))


def test_ranges(open_depot: Open) -> None:
    """Any range reads exactly its records, across blocks and segments."""
    depot = open_depot(partitions=1)
    for first in range(0, 40, 4):
        depot.append(numbers(first, 4))
        if first % 12 == 0:
            depot.close()
            depot = open_depot(partitions=1)
    for start in range(41):
        for end in range(start, 41):
            values = depot.read(0, start, end).column("v").to_pylist()
            assert values == list(range(start, end))


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 6), (3, 2), (7, 8)])
def test_ranges_that_are_not_there(open_depot: Open, start: int, end: int) -> None:
    """A range with an offset that is not there is refused whole."""
    depot = open_depot(partitions=1)
    depot.append(numbers(0, 5))
    with pytest.raises(DepotError):
        depot.read(0, start, end)
    with pytest.raises(DepotError):
        depot.read(1, 0, 0)


def test_refused_by_default(open_depot: Open) -> None:
    """One bad record and nothing of the call is kept; the error names line and reason."""
    depot = open_depot()
    with pytest.raises(RecordsRefusedError) as caught:
        depot.append([{"k": "a", "v": 1}, {"k": "b", "v": "x"}, {"v": 2, "z": 1}])
    context = caught.value.context
    assert [item["line"] for item in context["refusals"]] == [2, 3]
    assert (context["refused"], context["appended"]) == (2, 0)
    assert sum(depot.end_offsets()) == 0


def test_good_ones_kept(open_depot: Open) -> None:
    """With ``keep`` the others are stored and the refusals returned."""
    depot = open_depot()
    appended = depot.append([{"k": "a", "v": 1}, {"v": "x"}, {"k": "b", "v": 2}], "keep")
    assert (appended.count, appended.refused_count) == (2, 1)
    assert appended.refusals[0].line == 2
    assert all_values(depot) == [1, 2]
    with pytest.raises(UsageError):
        depot.append([], "sometimes")  # type: ignore[arg-type]


def test_reopening(open_depot: Open, tmp_path: Path) -> None:
    """Closed and opened again, by writer and reader, everything is there."""
    depot = open_depot()
    depot.append(numbers(0, 100))
    expected = all_rows(depot)
    depot.close()
    depot.close()
    with pytest.raises(StoppedError, match="'depot' is closed"):
        depot.append({"k": "late"})
    assert all_rows(open_depot()) == expected
    assert all_rows(DepotReader(tmp_path / "depot", depot.spec.schema)) == expected


def test_another_declaration(open_depot: Open) -> None:
    """A depot cannot be opened with another schema or partition count."""
    open_depot(partitions=2).append(numbers(0, 3))
    for options in ({"partitions": 3}, {"ddl": "k string, v int"}, {"ddl": "k string"}):
        with pytest.raises(DepotError, match="another declaration"):
            open_depot(**options)


def test_blocks_are_read_elsewhere(open_depot: Open, tmp_path: Path) -> None:
    """A block reference, pickled, reads its rows from the folder alone."""
    depot = open_depot(partitions=1)
    depot.append(table(0, 200_000))
    refs = pickle.loads(pickle.dumps(depot.blocks(0, 70_001, 150_000)))
    assert len(refs) > 1
    folder = tmp_path / "depot"
    one_by_one = [read_block(folder, ref, depot.spec.schema) for ref in refs]
    together = read_blocks(folder, refs, depot.spec.schema)
    for batches in (one_by_one, together):
        values = pa.Table.from_batches(batches).column("v").to_pylist()
        assert values == list(range(70_001, 150_000))


def test_missing_segment_of_a_block(open_depot: Open, tmp_path: Path) -> None:
    """A block whose file is gone is damage, with the file's name."""
    depot = open_depot(partitions=1)
    depot.append(numbers(0, 3))
    (ref,) = depot.blocks(0, 0, 3)
    path = segments(tmp_path / "depot")[-1]
    path.unlink()
    with pytest.raises(DamageError) as caught:
        read_block(tmp_path / "depot", ref, depot.spec.schema)
    assert caught.value.context["file"] == str(path)


def test_segments_roll(open_depot: Open, tmp_path: Path) -> None:
    """A full segment is followed by a new one, and all of them read as one log."""
    depot = open_depot(partitions=2, segment_bytes_max=64 * 1024)
    for first in range(0, 20_000, 1000):
        depot.append(table(first, 1000))
    assert len(segments(tmp_path / "depot")) > 3
    assert all_values(depot) == list(range(20_000))
    depot.close()
    again = open_depot(partitions=2, segment_bytes_max=64 * 1024)
    assert all_values(again) == list(range(20_000))


def test_listeners(open_depot: Open) -> None:
    """Listeners hear of every acknowledged append; one that fails disturbs nobody."""
    depot = open_depot()
    heard: list[int] = []
    depot.on_append(lambda: heard.append(sum(depot.end_offsets())))
    depot.append(numbers(0, 3))
    depot.append(numbers(3, 2))
    depot.on_append(lambda: 1 / 0)
    depot.append(numbers(5, 1))
    depot.append(numbers(6, 1))
    depot.close()
    assert heard == [3, 5, 6, 7]


def test_wide_schema(open_depot: Open) -> None:
    """Every type of the DDL comes back as it went in."""
    ddl = "k long, d decimal(9,2), at timestamp, x binary, t array<string>, m map<string,int>"
    depot = open_depot(ddl=ddl, partitions=3)
    rows = [
        {"k": n, "d": f"{n}.25", "x": b"\0\xff", "t": ["a", None], "m": {"q": n}} for n in range(50)
    ]
    depot.append(rows)
    found = sorted((row["k"], str(row["d"])) for part in all_rows(depot) for row in part)
    assert found == [(n, f"{n}.25") for n in range(50)]
    (row,) = [row for part in all_rows(depot) for row in part if row["k"] == 7]
    assert (row["x"], row["t"], row["m"], row["at"]) == (b"\0\xff", ["a", None], [("q", 7)], None)


def test_missing_retained_segment(open_depot: Open, tmp_path: Path) -> None:
    """A segment deleted by hand, at either end it can be known of, is damage."""
    for _ in range(3):
        depot = open_depot()
        depot.append(numbers(0, 3))
        depot.close()
    paths = segments(tmp_path / "depot")
    for path in paths[:2]:
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(DamageError) as caught:
            DepotReader(tmp_path / "depot", spec_of().schema)
        assert caught.value.context["file"] == str(path)
        path.write_bytes(data)
    assert len(all_values(DepotReader(tmp_path / "depot", spec_of().schema))) == 9
