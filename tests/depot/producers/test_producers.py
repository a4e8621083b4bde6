"""Appends with a producer: stored once however often they come, and what is refused."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from depot_samples import Clock, all_values, numbers, segments, table

from atoll.depot import Depot, Producer, Retention
from atoll.depot.append import stream as stream_append
from atoll.depot.producers.fingerprint import RecordsCrc
from atoll.depot.producers.table import (
    Admission,
    Append,
    Duplicate,
    ProducerMark,
    ProducerTable,
)
from atoll.depot.segments import segment_file
from atoll.depot.segments.format import BlockEntry, FrameHeader
from atoll.errors import ProducerError, StorageError, UsageError

Open = Callable[..., Depot]


def problem(depot: Depot, rows: Any, producer: Producer) -> str:
    """Why the append is refused."""
    with pytest.raises(ProducerError) as caught:
        depot.append(rows, producer=producer)
    assert caught.value.code == "E-PRODUCER"
    return str(caught.value.context["problem"])


def test_sent_again(open_depot: Open) -> None:
    """The same number again stores nothing and gets the first answer's offsets."""
    depot = open_depot()
    first = depot.append(numbers(0, 3), producer=Producer("p", 7))
    again = depot.append(numbers(0, 3), producer=Producer("p", 7))
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.offsets == first.offsets
    assert again.count == 3
    for n in range(8, 20):
        depot.append(numbers(n * 10, 1), producer=Producer("p", n))
    old = depot.append(numbers(0, 3), producer=Producer("p", 7))
    assert (old.duplicate, old.offsets) == (True, {})
    assert len(all_values(depot)) == 3 + 12


def test_refusals(open_depot: Open) -> None:
    """A gap, other records under a number, an earlier life: each is refused and stores nothing."""
    depot = open_depot()
    depot.append(numbers(0, 3), producer=Producer("p", 1, epoch=4))
    assert problem(depot, numbers(9, 1), Producer("p", 3, epoch=4)) == "gap"
    assert problem(depot, numbers(0, 2), Producer("p", 1, epoch=4)) == "conflict"
    assert problem(depot, numbers(9, 1), Producer("p", 2, epoch=3)) == "stale epoch"
    assert all_values(depot) == [0, 1, 2]
    depot.append(numbers(3, 1), producer=Producer("p", 3, epoch=4, gaps=True))
    assert depot.append(numbers(4, 1), producer=Producer("p", 0, epoch=5)).duplicate is False
    assert all_values(depot) == list(range(5))


@pytest.mark.parametrize(
    "arguments",
    [("", 0), ("x" * 161, 0), ("p", -1), ("p", 2**63), ("p", 0, -1), ("p", True), ("\ud800", 0)],
)
def test_what_cannot_be(arguments: tuple[Any, ...]) -> None:
    """Ids and numbers out of their limits are refused where they are made."""
    with pytest.raises(UsageError):
        Producer(*arguments)


def test_no_records_take_a_number(open_depot: Open) -> None:
    """An append without records counts, also after reopening."""
    depot = open_depot()
    depot.append([], producer=Producer("p", 0))
    depot.close()
    depot = open_depot()
    assert depot.append([], producer=Producer("p", 0)).duplicate
    assert not depot.append(numbers(0, 1), producer=Producer("p", 1)).duplicate


def test_over_openings_and_trimming(open_depot: Open) -> None:
    """What is known of producers outlives the segments that their records lay in."""
    options = {"segment_bytes_max": 64 * 1024, "retention": Retention(records_max=0)}
    depot = open_depot(**options)
    depot.append(numbers(0, 3), producer=Producer("p", 5))
    depot.append(table(100, 10_000))
    depot.append(table(20_000, 10_000))
    assert depot.trim() > 0
    assert min(depot.start_offsets()) > 0
    for _ in range(2):
        depot.close()
        depot = open_depot(**options)
        assert depot.append(numbers(0, 3), producer=Producer("p", 5)).offsets
        assert problem(depot, numbers(0, 1), Producer("p", 7)) == "gap"


def test_staged(open_depot: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An append larger than memory is found to be a duplicate, its file is deleted."""
    monkeypatch.setattr(stream_append, "MEMORY_BYTES_MAX", 8 * 1024)
    monkeypatch.setattr(stream_append, "_CHUNK_BYTES", 4 * 1024)
    depot = open_depot()
    depot.append(numbers(0, 1), producer=Producer("small", 0))
    first = depot.append(table(0, 5_000), producer=Producer("large", 0))
    count = len(segments(tmp_path / "depot"))
    assert count == 2
    for _ in range(2):
        again = depot.append(table(0, 5_000), producer=Producer("large", 0))
        assert (again.duplicate, again.offsets) == (True, first.offsets)
        assert list((tmp_path / "depot" / "staging").iterdir()) == []
        assert depot.append(numbers(0, 1), producer=Producer("small", 0)).duplicate
        depot.close()
        depot = open_depot()
    assert sum(depot.end_offsets()) == 5_001


def test_two_in_one_group(  # noqa: C901  # two threads' worth of steps
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is a duplicate of the first, and fails with it."""
    depot = open_depot()
    depot.append(numbers(0, 1))
    for fails in (True, False):
        entered, release = threading.Event(), threading.Event()
        original = segment_file._datasync
        calls: list[int] = []

        def sync(
            descriptor: int,
            calls: list[int] = calls,
            entered: threading.Event = entered,
            release: threading.Event = release,
            fails: bool = fails,
            original: Callable[[int], None] = original,
        ) -> None:
            calls.append(descriptor)
            if len(calls) == 1:
                entered.set()
                assert release.wait(30)
            elif fails and len(calls) == 2:
                raise OSError(5, "Input/output error")
            original(descriptor)

        outcomes: list[Any] = []

        def append(outcomes: list[Any] = outcomes) -> None:
            try:
                outcomes.append(depot.append(numbers(5, 2), producer=Producer("p", 3)))
            except StorageError as error:
                outcomes.append(error)

        with monkeypatch.context() as patch:
            patch.setattr(segment_file, "_datasync", sync)
            blocker = threading.Thread(target=depot.append, args=(numbers(1, 1),))
            blocker.start()
            assert entered.wait(30)
            threads = [threading.Thread(target=append) for _ in range(3)]
            for thread in threads:
                thread.start()
            while depot._writer._queue.qsize() < 3:
                assert threading.active_count() > 1
            release.set()
            for thread in [blocker, *threads]:
                thread.join(30)
        if fails:
            assert [type(outcome) for outcome in outcomes] == [StorageError] * 3
        else:
            assert sorted(outcome.duplicate for outcome in outcomes) == [False, True, True]
            assert len({str(outcome.offsets) for outcome in outcomes}) == 1
    assert all_values(depot) == [0, 1, 1, 5, 6]


def test_a_failed_group_takes_no_number(open_depot: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed write the number is still to come, also when the depot is opened again."""
    depot = open_depot()
    depot.append(numbers(0, 1), producer=Producer("p", 0))
    left = [1]
    original = segment_file._datasync

    def fail(descriptor: int) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(5, "Input/output error")
        original(descriptor)

    monkeypatch.setattr(segment_file, "_datasync", fail)
    with pytest.raises(StorageError):
        depot.append(numbers(1, 1), producer=Producer("p", 1))
    assert problem(depot, numbers(2, 1), Producer("p", 2)) == "gap"
    depot.close()
    depot = open_depot()
    assert not depot.append(numbers(1, 1), producer=Producer("p", 1)).duplicate
    assert all_values(depot) == [0, 1]


@pytest.mark.parametrize("call", ["writev", "pwrite", "fsync", "fdatasync", "link", "open"])
@pytest.mark.parametrize("skip", range(4))
def test_the_disk_refuses(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch, call: str, skip: int
) -> None:
    """Whatever call fails, for as long as it fails: afterwards one append works, all is there."""
    depot = open_depot(segment_bytes_max=64 * 1024)
    failed = [0]
    original = getattr(os, call)
    acknowledged = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] > skip:
            failed[0] += 1
            raise OSError(28, "No space left on device")
        return original(*arguments, **options)

    for life in range(3):
        calls = [0]
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            if call == "fdatasync":
                patch.setattr(segment_file, "_datasync", refuse)
            for n in range(8):
                value = life * 10 + n
                rows = [{"k": "k" * 70_000, "v": value}]
                try:
                    depot.append(rows, producer=Producer("p", value, gaps=True))
                except StorageError:
                    continue
                acknowledged.append(value)
        value = life * 10 + 8
        depot.append([{"k": "", "v": value}], producer=Producer("p", value, gaps=True))
        acknowledged.append(value)
        assert all_values(depot) == acknowledged
    assert failed[0] > 0
    depot.close()
    depot = open_depot(segment_bytes_max=64 * 1024)
    assert all_values(depot) == acknowledged
    assert depot.append([{"k": "", "v": value}], producer=Producer("p", value)).duplicate


def test_expiry(open_depot: Open) -> None:
    """A producer that is silent for too long begins anew; one of a topology's never does."""
    clock = Clock(1_000_000)
    depot = open_depot(clock=clock, producer_seconds_max=60.0)
    for name in ("p", "topology/m/t"):
        depot.append(numbers(0, 1), producer=Producer(name, 5))
    clock.now += 61
    depot.close()
    depot = open_depot(clock=clock, producer_seconds_max=60.0)
    assert not depot.append(numbers(0, 1), producer=Producer("p", 2)).duplicate
    assert depot.append(numbers(0, 1), producer=Producer("topology/m/t", 5)).duplicate
    depot.close()
    depot = open_depot(clock=clock, producer_seconds_max=60.0)
    assert problem(depot, numbers(0, 1), Producer("p", 6)) == "gap"


def test_the_table_is_bounded() -> None:
    """The longest silent ones make room, never a topology's; a snapshot restores the rest."""
    known = ProducerTable(producers_max=3)
    names = ["topology/t", "a", "b", "a", "c", "d"]
    for time_ms, name in enumerate(names):
        known.apply([ProducerMark(name, 0, time_ms, 0, time_ms, [])])
    other = ProducerTable(producers_max=3)
    other.apply(known.snapshot(10))
    for each in (known, other):
        assert [bool(each.marks(name, 10)) for name in ("topology/t", "a", "b", "c", "d")] == [
            True, False, False, True, True,
        ]  # fmt: skip
    assert other.snapshot(10) == known.snapshot(10)


def test_admission_leaves_the_table() -> None:
    """What a group decides is its own until its frames are applied."""
    known = ProducerTable()
    admission = Admission(known, 5)
    assert isinstance(admission.admit(Producer("p", 1), 9), Append)
    mark = admission.add(Producer("p", 1), 9, {0: (3, 4)})
    assert admission.admit(Producer("p", 1), 9) == Duplicate({0: (3, 4)})
    assert isinstance(known.admit(Producer("p", 1), 9, 5), Append)
    known.apply([mark, mark])
    assert known.admit(Producer("p", 1), 9, 5) == Duplicate({0: (3, 4)})
    assert len(known) == 1


def test_frames_of_before() -> None:
    """A frame header without producers, as earlier versions wrote it, still reads."""
    old = msgspec.msgpack.encode([7, 4096, [[0, 1, 100, 5]]])
    header = msgspec.msgpack.decode(old, type=FrameHeader)
    assert header == FrameHeader(7, 4096, [BlockEntry(0, 1, 100, 5)], [])


def test_the_crc_is_of_the_records() -> None:
    """It does not depend on batches or on memory, and differs where a record does."""
    kinds = {
        "flag": pa.bool_(),
        "text": pa.string(),
        "list": pa.list_(pa.int64()),
        "map": pa.map_(pa.string(), pa.int32()),
        "struct": pa.struct([("a", pa.int16()), ("b", pa.binary())]),
    }
    rows = [
        {
            "flag": n % 3 == 0,
            "text": None if n % 5 == 0 else "x" * (n % 4),
            "list": None if n % 7 == 0 else [n, None][: n % 3],
            "map": None if n % 4 == 0 else [(f"{n}", n)],
            "struct": None if n % 6 == 0 else {"a": n, "b": None if n % 2 else b"y"},
        }
        for n in range(100)
    ]
    schema = pa.schema(list(kinds.items()))

    def crc(rows: list[dict[str, Any]], cuts: list[int]) -> int:
        batch = pa.RecordBatch.from_pylist(rows, schema)
        running = RecordsCrc()
        bounds = [0, *cuts, len(rows)]
        for start, end in itertools.pairwise(bounds):
            running.add(batch.slice(start, end - start))
        return running.value()

    whole = crc(rows, [])
    assert {crc(rows, [1]), crc(rows, [13, 13, 50]), crc(rows, list(range(1, 100)))} == {whole}
    seen = {whole}
    for n, (name, other) in enumerate(
        [("flag", None), ("text", ""), ("list", []), ("map", []), ("struct", {"a": 1, "b": b""})]
    ):
        changed = [dict(row) for row in rows]
        changed[35 * (n % 2)][name] = other
        seen.add(crc(changed, []))
    assert len(seen) == 6
