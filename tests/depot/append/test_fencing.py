"""Two writers of one depot: the later one owns it, the earlier one never acknowledges again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from depot_samples import all_values, numbers

from atoll.depot import Depot
from atoll.depot import depot as depot_module
from atoll.depot.segments import segment_file
from atoll.depot.segments.format import SegmentHeader
from atoll.errors import AtollError, FencedError

Open = Callable[..., Depot]


def test_the_older_one_is_fenced(open_depot: Open) -> None:
    """After a second opening the first one's appends fail, for ever, and leave nothing."""
    older = open_depot(epoch=1)
    older.append(numbers(0, 2))
    newer = open_depot(epoch=2)
    for _ in range(2):
        with pytest.raises(FencedError) as caught:
            older.append(numbers(100, 1))
    assert caught.value.context["epoch"] == 2
    newer.append(numbers(2, 2))
    assert all_values(newer) == [0, 1, 2, 3]
    newer.close()
    assert all_values(open_depot(epoch=2)) == [0, 1, 2, 3]


def test_a_lower_epoch_cannot_open(open_depot: Open) -> None:
    """An earlier life of the coordinator cannot take the depot back."""
    newer = open_depot(epoch=5)
    with pytest.raises(FencedError):
        open_depot(epoch=4)
    newer.append(numbers(0, 1))
    assert all_values(newer) == [0]


def test_fenced_while_in_an_fsync(open_depot: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that was stopped in its fsync while another opened never acknowledges."""
    older = open_depot(epoch=1)
    older.append(numbers(0, 2))
    entered, release = threading.Event(), threading.Event()
    original = segment_file._datasync

    def stopped(descriptor: int) -> None:
        entered.set()
        assert release.wait(30)
        original(descriptor)

    outcome: list[object] = []

    def append() -> None:
        try:
            outcome.append(older.append(numbers(100, 1)))
        except AtollError as error:
            outcome.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(segment_file, "_datasync", stopped)
        thread = threading.Thread(target=append)
        thread.start()
        assert entered.wait(30)
    newer = open_depot(epoch=2)
    seen = newer.end_offsets()
    release.set()
    thread.join(timeout=30)
    assert isinstance(outcome[0], FencedError)
    newer.append(numbers(2, 2))
    # what was written but not acknowledged may be there or not, but once and from the beginning
    assert [value for value in all_values(newer) if value < 100] == [0, 1, 2, 3]
    assert sum(newer.end_offsets()) == sum(seen) + 2


def test_the_coordinators_fence(open_depot: Open) -> None:
    """When the coordinator's own fence raises, nothing is acknowledged any more."""
    fenced = [False]

    def fence() -> None:
        if fenced[0]:
            raise FencedError("epoch 9 owns the module", epoch=9)

    depot = open_depot(epoch=1, fence=fence)
    depot.append(numbers(0, 2))
    fenced[0] = True
    for _ in range(2):
        with pytest.raises(FencedError, match="epoch 9"):
            depot.append(numbers(2, 1))
    assert sum(depot.end_offsets()) == 2


def test_a_chain_of_writers_under_load(open_depot: Open) -> None:
    """While each of several writers is overtaken, all that any acknowledged is there once."""
    acknowledged: list[int] = []
    lock = threading.Lock()

    def work(depot: Depot, first: int) -> None:
        try:
            for value in range(first, first + 100_000):
                depot.append({"k": f"{first}", "v": value})
                with lock:
                    acknowledged.append(value)
        except FencedError:
            return

    threads: list[threading.Thread] = []
    depot = open_depot(epoch=0)
    for epoch in range(1, 6):
        for n in range(4):
            first = (epoch * 4 + n) * 1_000_000
            threads.append(threading.Thread(target=work, args=(depot, first)))
            threads[-1].start()
        goal = len(acknowledged) + 40
        while len(acknowledged) < goal:
            assert any(thread.is_alive() for thread in threads)
        depot = open_depot(epoch=epoch)
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    found = all_values(depot)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    by_writer: dict[int, list[int]] = {}
    for value in found:
        by_writer.setdefault(value // 1_000_000, []).append(value % 1_000_000)
    assert all(values == list(range(len(values))) for values in by_writer.values())


def test_many_open_at_once(open_depot: Open) -> None:
    """Of eight that open at the same time, the last claim alone can append."""
    depots: list[Depot] = []
    start = threading.Barrier(8)

    def compete() -> None:
        start.wait()
        try:
            depots.append(open_depot(epoch=1))
        except FencedError:
            return

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    winners = []
    for n, depot in enumerate(depots):
        try:
            depot.append({"k": "a", "v": n})
        except FencedError:
            continue
        winners.append(n)
    assert len(winners) == 1
    assert all_values(depots[winners[0]]) == winners


def test_a_past_number_that_is_claimed_again_is_not_the_writers_own(open_depot: Open) -> None:
    """Who looked before the others came makes a claim of a past number, until it sees them."""
    first = open_depot(epoch=1)
    claim = first._writer._claim
    claims, number = claim._claims, claim.number
    payload = claims.read(number)
    open_depot(epoch=1)
    claims.create(number, payload)
    with pytest.raises(FencedError):
        first.append({"k": "a", "v": 1})


def test_a_slow_opener_leaves_what_a_later_one_stages(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleaning up after earlier writers never takes the file of one that came later meanwhile."""
    clean, publish = segment_file.clean_staging, segment_file.SegmentFile.publish
    delayed: list[tuple[Path, int]] = []
    monkeypatch.setattr(depot_module, "clean_staging", lambda *call: delayed.append(call))
    open_depot(epoch=1)

    def clean_late(file: segment_file.SegmentFile, header: SegmentHeader) -> None:
        clean(*delayed[0])
        publish(file, header)

    monkeypatch.setattr(segment_file.SegmentFile, "publish", clean_late)
    later = open_depot(epoch=1)
    later.append(numbers(0, 2))
    assert all_values(later) == [0, 1]
