"""Appends larger than memory: all or nothing, published at once, in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from depot_samples import all_rows, all_values, numbers, segments, table

import atoll
from atoll.codec.records.refusals import Checked, Refusal
from atoll.depot import Depot, DepotReader
from atoll.depot.append import stream as stream_append
from atoll.errors import RecordsRefusedError, StorageError

Open = Callable[..., Depot]
ROWS = 100_000


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let appends be staged from a few hundred KiB on."""
    monkeypatch.setattr(stream_append, "MEMORY_BYTES_MAX", 256 * 1024)
    monkeypatch.setattr(stream_append, "_CHUNK_BYTES", 64 * 1024)


def chunks(depot: Depot, rows: int = ROWS, step: int = 5000) -> Iterator[Checked]:
    """Checked chunks of rising ``v``."""
    for first in range(0, rows, step):
        yield depot.codec.from_arrow(table(first, step), first + 1)


def staged(folder: Path) -> list[Path]:
    """What lies in the staging folder."""
    return list((folder / "staging").glob("*"))


def test_large_append(open_depot: Open) -> None:
    """A staged append is one call: offsets, order, and the log goes on behind it."""
    depot = open_depot(partitions=3)
    depot.append(numbers(-5, 5))
    seen: list[int] = []
    appended = depot.append_stream(chunks(depot), progress=seen.append)
    assert appended.count == ROWS
    assert sum(end - start for start, end in appended.offsets.values()) == ROWS
    assert seen == list(range(5000, ROWS + 1, 5000))
    depot.append(numbers(ROWS, 5))
    assert all_values(depot) == list(range(-5, ROWS + 5))
    for part in all_rows(depot):
        by_key: dict[str, list[int]] = {}
        for row in part:
            if 0 <= row["v"] < ROWS:
                by_key.setdefault(row["k"], []).append(row["v"])
        assert all(values == sorted(values) for values in by_key.values())
    depot.close()
    again = open_depot(partitions=3)
    assert all_values(again) == list(range(-5, ROWS + 5))
    assert staged(depot.folder) == []


def test_nothing_is_seen_before_the_end(open_depot: Open) -> None:
    """Halfway through a staged append neither writer nor readers see any of it."""
    depot = open_depot()
    depot.append(numbers(-3, 3))

    def watched() -> Iterator[Checked]:
        for chunk in chunks(depot):
            yield chunk
            assert sum(depot.end_offsets()) == 3
            if staged(depot.folder):
                assert sum(DepotReader(depot.folder, depot.spec.schema).end_offsets()) == 3

    depot.append_stream(watched())
    assert sum(depot.end_offsets()) == ROWS + 3


@pytest.mark.parametrize("bad_at", [0, ROWS // 2, ROWS - 5000])
def test_all_or_nothing(open_depot: Open, bad_at: int) -> None:
    """One refused record, wherever it is, and nothing is kept; all refused ones are counted."""
    depot = open_depot()

    def with_bad() -> Iterator[Checked]:
        for first, chunk in zip(range(0, ROWS, 5000), chunks(depot), strict=True):
            refusals = [Refusal(first + 1, "bad")] if first >= bad_at else []
            yield Checked(chunk.batch, refusals, len(refusals))

    with pytest.raises(RecordsRefusedError) as caught:
        depot.append_stream(with_bad())
    assert caught.value.context["refused"] == (ROWS - bad_at) // 5000
    assert caught.value.context["refusals"][0] == {"line": bad_at + 1, "reason": "bad"}
    assert sum(depot.end_offsets()) == 0
    assert staged(depot.folder) == []
    kept = depot.append_stream(with_bad(), "keep")
    assert (kept.count, kept.refused_count) == (ROWS, (ROWS - bad_at) // 5000)
    assert all_values(depot) == list(range(ROWS))


def test_a_source_that_fails(open_depot: Open) -> None:
    """When the source raises in the middle, nothing is kept."""
    depot = open_depot()

    def failing() -> Iterator[Checked]:
        yield from chunks(depot, ROWS // 2)
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        depot.append_stream(failing())
    assert sum(depot.end_offsets()) == 0
    assert staged(depot.folder) == []


def test_a_disk_that_fails_while_staging(open_depot: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while staging costs this append alone."""
    depot = open_depot()
    depot.append(numbers(0, 3))
    original = os.writev
    calls = [0]

    def full(descriptor: int, buffers: list[memoryview]) -> int:
        calls[0] += 1
        if calls[0] == 5:
            raise OSError(28, "No space left on device")
        return original(descriptor, buffers)

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(StorageError):
            depot.append_stream(chunks(depot))
    assert staged(depot.folder) == []
    depot.append(numbers(3, 3))
    assert all_values(depot) == list(range(6))


def test_a_staged_append_that_cannot_be_published(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the last link fails, nothing is kept, no file is left, and the depot goes on."""
    depot = open_depot()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with pytest.raises(StorageError):
            depot.append_stream(chunks(depot))
    assert staged(depot.folder) == []
    depot.append(numbers(0, 3))
    assert all_values(depot) == [0, 1, 2]


def test_streams_and_single_records_at_once(open_depot: Open) -> None:
    """Staged appends and single ones from several threads are each whole and in order."""
    depot = open_depot(partitions=2)

    def stream() -> None:
        depot.append_stream(chunks(depot, 40_000))

    def single(first: int) -> None:
        for value in range(first, first + 50):
            depot.append({"k": "s", "v": value})

    threads = [threading.Thread(target=stream) for _ in range(2)]
    threads += [threading.Thread(target=single, args=(-(n + 1) * 1000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    singles = [v for n in range(4) for v in range(-(n + 1) * 1000, -(n + 1) * 1000 + 50)]
    assert all_values(depot) == sorted([*singles, *range(40_000), *range(40_000)])
    before = all_rows(depot)
    depot.close()
    assert all_rows(open_depot(partitions=2)) == before


def test_leftovers_are_deleted(open_depot: Open) -> None:
    """What a killed writer had staged is gone after the next opening."""
    depot = open_depot()
    depot.close()
    (depot.folder / "staging" / "dead.seg").write_bytes(b"half")
    open_depot()
    assert staged(depot.folder) == []


def test_damage_in_a_staged_segment(open_depot: Open) -> None:
    """A staged segment is durable as a whole, so any part of it that is gone is damage."""
    depot = open_depot()
    depot.append_stream(chunks(depot))
    depot.close()
    path = segments(depot.folder)[-1]
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(atoll.errors.DamageError):
        open_depot()


def test_large_table_in_one_call(open_depot: Open) -> None:
    """A table that is larger than the memory bound goes the same way."""
    depot = open_depot(partitions=8)
    whole = pa.table({"k": ["x"] * 300_000, "v": range(300_000)})
    assert depot.append(whole).count == 300_000
    assert all_values(depot) == list(range(300_000))


_MEMORY = """
import json, resource, sys
from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec, HashBy
spec = DepotSpec("d", parse_ddl("id long, text string"), 4, HashBy("id"))
depot = Depot(sys.argv[1], spec, 1)
depot.append([{"id": n, "text": "x"} for n in range(10000)])
depot.append_file(sys.argv[2] + "small.jsonl")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = depot.append_file(sys.argv[2] + "large.jsonl").count
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([count, (after - before) // 1024]))
"""


def test_memory_of_a_large_file(tmp_path: Path) -> None:
    """Appending a file of 150 MB takes less than 80 MB more than appending a small one."""
    lines = b"".join(
        json.dumps({"id": n, "text": f"{n} " + "x" * 280}).encode() + b"\n" for n in range(10_000)
    )
    (tmp_path / "small.jsonl").write_bytes(lines)
    with (tmp_path / "large.jsonl").open("wb") as file:
        for _ in range(50):
            file.write(lines)
    source = Path(atoll.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(tmp_path / "depot"), f"{tmp_path}/"],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    count, grown = json.loads(done.stdout.splitlines()[-1])
    assert count == 500_000
    assert grown < 80
