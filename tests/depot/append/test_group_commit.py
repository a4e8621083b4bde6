"""Many appenders and failing disks: who is acknowledged, and what is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from depot_samples import Clock, all_rows, all_values, numbers, segments, table

from atoll.depot import Depot
from atoll.depot.segments import segment_file
from atoll.errors import StorageError
from atoll.storage import local

Open = Callable[..., Depot]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(0..count-1)`` at once and wait."""
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_thirty_two_threads(open_depot: Open) -> None:
    """Each record is there once, each thread's in order, at the offset that it was told."""
    depot = open_depot(partitions=3)
    told: dict[int, tuple[int, int]] = {}

    def work(thread: int) -> None:
        for n in range(25):
            value = thread * 1000 + n
            (place,) = depot.append({"k": f"t{thread}", "v": value}).offsets.items()
            told[value] = (place[0], place[1][0])
            if n % 10 == 0:
                bulk = [{"k": f"t{thread}", "v": -value - j} for j in range(100)]
                assert depot.append(bulk).count == 100

    in_threads(32, work)
    rows = all_rows(depot)
    for value, (partition, offset) in told.items():
        assert rows[partition][offset]["v"] == value
    flat = [row["v"] for part in rows for row in part if row["v"] > 0 or row["k"] == "t0"]
    assert len([value for value in flat if value > 0]) == 32 * 25 - 1
    for part in rows:
        for thread in range(1, 32):
            own = [row["v"] for row in part if row["k"] == f"t{thread}" and row["v"] > 0]
            assert own == sorted(own)
    assert sum(depot.end_offsets()) == 32 * (25 + 300)


def test_waiting_appends_share_one_sync(open_depot: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """What queues up during an fsync is written with one more fsync, not one each."""
    depot = open_depot()
    depot.append(numbers(0, 1))
    syncs: list[int] = []
    release, entered = threading.Event(), threading.Event()
    original = segment_file._datasync

    def slow(descriptor: int) -> None:
        syncs.append(descriptor)
        entered.set()
        assert release.wait(30)
        original(descriptor)

    monkeypatch.setattr(segment_file, "_datasync", slow)
    first = threading.Thread(target=depot.append, args=(numbers(1, 1),))
    first.start()
    assert entered.wait(30)
    others = [threading.Thread(target=depot.append, args=(numbers(2 + n, 1),)) for n in range(20)]
    for thread in others:
        thread.start()
    while depot._writer._queue.qsize() < 20:
        assert threading.active_count() > 1
    release.set()
    for thread in [first, *others]:
        thread.join(timeout=30)
    assert len(syncs) == 2
    assert all_values(depot) == list(range(22))


def failing_sync(monkeypatch: pytest.MonkeyPatch, *, times: int) -> None:
    """Let the next syncs fail, after the data went to the page cache."""
    original = segment_file._datasync
    left = [times]

    def fail(descriptor: int) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(5, "Input/output error")
        original(descriptor)

    monkeypatch.setattr(segment_file, "_datasync", fail)


def test_failed_sync(open_depot: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A failed fsync fails its appends for good; the next append uses another segment."""
    depot = open_depot()
    depot.append(numbers(0, 3))
    failing_sync(monkeypatch, times=1)
    with pytest.raises(StorageError) as caught:
        depot.append(numbers(100, 3))
    assert caught.value.context["file"] == str(segments(tmp_path / "depot")[0])
    assert sum(depot.end_offsets()) == 3
    depot.append(numbers(3, 2))
    assert len(segments(tmp_path / "depot")) == 2
    assert all_values(depot) == list(range(5))
    depot.close()
    assert all_values(open_depot()) == list(range(5))


def test_failed_sync_fails_the_whole_group(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many appenders and failing syncs, exactly the acknowledged ones are there."""
    depot = open_depot()
    good: list[int] = []
    bad: list[int] = []
    failing_sync(monkeypatch, times=5)

    def work(thread: int) -> None:
        for n in range(10):
            value = thread * 100 + n
            try:
                depot.append({"k": "x", "v": value})
            except StorageError:
                bad.append(value)
            else:
                good.append(value)

    in_threads(16, work)
    assert len(bad) >= 5
    assert all_values(depot) == sorted(good)
    depot.close()
    assert all_values(open_depot()) == sorted(good)


@pytest.mark.parametrize("kept", [0, 1, 10, 200])
def test_failed_write(open_depot: Open, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """A disk that is full in the middle of a frame costs only that append."""
    depot = open_depot()
    depot.append(numbers(0, 3))
    original = os.writev
    failed: list[int] = []

    def full(descriptor: int, buffers: Sequence[Any]) -> int:
        if not failed:
            failed.append(descriptor)
            os.write(descriptor, b"".join(bytes(buffer) for buffer in buffers)[:kept])
            raise OSError(28, "No space left on device")
        return original(descriptor, buffers)

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StorageError, match="No space"):
        depot.append(numbers(100, 3))
    assert failed
    depot.append(numbers(3, 3))
    assert all_values(depot) == list(range(6))
    depot.close()
    assert all_values(open_depot()) == list(range(6))


def test_short_writes(open_depot: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes a few bytes at a time changes nothing."""
    depot = open_depot()
    monkeypatch.setattr(
        os, "writev", lambda fd, buffers: os.write(fd, bytes(buffers[0])[:7] or b"")
    )
    depot.append(numbers(0, 20))
    assert all_values(depot) == list(range(20))
    depot.close()
    assert all_values(open_depot()) == list(range(20))


def test_failed_new_segment(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When not even a new segment can be made, appends fail until one can."""
    depot = open_depot()
    depot.append(numbers(0, 2))
    failing_sync(monkeypatch, times=1)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        for _ in range(4):
            with pytest.raises(StorageError):
                depot.append(numbers(100, 1))
    depot.append(numbers(2, 1))
    assert all_values(depot) == [0, 1, 2]
    assert list((tmp_path / "depot" / "staging").iterdir()) == []


def test_time_never_goes_back(open_depot: Open) -> None:
    """A clock that is set back does not disorder append times."""
    clock = Clock(2000)
    depot = open_depot(clock=clock, partitions=1)
    depot.append(numbers(0, 1))
    clock.now = 1000
    depot.append(numbers(1, 1))
    depot.close()
    again = open_depot(clock=clock, partitions=1)
    again.append(numbers(2, 1))
    times = [again._chain.offset_after(0, ms) for ms in (999_999, 1_999_999, 2_000_000)]
    assert times == [0, 0, 3]


def test_published_but_not_vouched_for(open_depot: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that appeared although publishing it failed counts for nothing."""
    depot = open_depot(segment_bytes_max=64 * 1024)
    depot.append(table(0, 10_000))
    left = [1]
    original = local.fsync_folder

    def fail(folder: Path) -> None:
        if left[0] and folder.name == "segments":
            left[0] -= 1
            raise OSError(5, "Input/output error")
        original(folder)

    monkeypatch.setattr(local, "fsync_folder", fail)
    with pytest.raises(StorageError):
        depot.append(numbers(20_000, 1))
    depot.append(numbers(10_000, 5))
    assert all_values(depot) == list(range(10_005))
    depot.close()
    assert all_values(open_depot(segment_bytes_max=64 * 1024)) == list(range(10_005))
