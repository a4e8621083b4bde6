"""Depots in a bucket: one object for a group of appends, and the same promises as on a disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from faulty import FaultyBucket, healthy

from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec
from atoll.depot.mirror import SegmentMirror
from atoll.depot.producers.table import Producer
from atoll.depot.reader import DepotReader
from atoll.depot.segments.verify import verify_depot
from atoll.depot.spec import Retention
from atoll.errors import FencedError
from atoll.storage.places import BucketPlace, place_of
from atoll.storage.roots import open_store

pytest.importorskip("obstore")

SCHEMA = parse_ddl("v long")


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BucketPlace:
    """Of a depot, in a bucket in memory of this test alone."""
    monkeypatch.setenv("ATOLL_LOCAL", str(tmp_path / "local"))
    found = place_of(f"memory://{tmp_path.name}-{request.node.name}/root")
    assert isinstance(found, BucketPlace)
    return found / "m" / "depots" / "d"


@pytest.fixture
def opened(place: BucketPlace) -> Iterator[Depot]:
    """A depot there."""
    with Depot(place, spec(), epoch=1) as depot:
        yield depot


def spec(retention: Retention | None = None) -> DepotSpec:
    """The declaration of the depots here."""
    return DepotSpec("d", SCHEMA, 2, retention=retention or Retention())


def values(depot: Depot | DepotReader) -> list[int]:
    """All that it holds, in order of value."""
    found: list[int] = []
    for part, (start, end) in enumerate(
        zip(depot.start_offsets(), depot.end_offsets(), strict=True)
    ):
        found += depot.read(part, start, end)["v"].to_pylist()
    return sorted(found)


def test_appends_of_any_size_are_there_again(place: BucketPlace) -> None:
    """Small ones, one that is staged on this host first, and one with a producer, twice."""
    many = pa.table({"v": list(range(10, 10 + 3_000_000))})
    with Depot(place, spec(), epoch=1) as depot:
        depot.append([{"v": 1}])
        depot.append(many)
        for _ in range(2):
            depot.append([{"v": 2}], producer=Producer("p", sequence=1))
    with Depot(place, spec(), epoch=2) as again:
        again.append([{"v": 2}], producer=Producer("p", sequence=1))
        assert again.last_sequence("p") == 1
        assert sum(again.end_offsets()) == 3_000_002
        assert values(DepotReader(place, SCHEMA)) == [1, 2, *range(10, 10 + 3_000_000)]
    assert not list(verify_depot(place))


def test_appends_that_come_together_are_one_object(opened: Depot, place: BucketPlace) -> None:
    """While one request is under way, others queue for the next."""
    first, go = threading.Event(), threading.Event()

    def verdict(kind: str, key: str, _before: int) -> None:
        if kind == "put" and "/segments/" in key:
            first.set()
            assert go.wait(30)

    bucket = FaultyBucket(place.bucket, verdict, ("put",))
    threads = [threading.Thread(target=opened.append, args=([{"v": n}],)) for n in range(40)]
    threads[0].start()
    assert first.wait(30)
    for thread in threads[1:]:
        thread.start()
    while opened._writer._queue.qsize() < len(threads) - 1:
        threads[-1].join(0.01)
    go.set()
    for thread in threads:
        thread.join()
    healthy(place.bucket)
    assert values(opened) == list(range(40))
    assert bucket.count == 2


def test_whoever_opens_it_later_is_the_writer(opened: Depot, place: BucketPlace) -> None:
    """What the earlier one appended until then is there; after that it is told."""
    opened.append([{"v": 1}])
    with Depot(place, spec(), epoch=2) as later:
        with pytest.raises(FencedError):
            opened.append([{"v": 2}])
        later.append([{"v": 3}])
        with pytest.raises(FencedError):
            Depot(place, spec(), epoch=1)
        assert values(later) == [1, 3]


def test_names_that_are_not_ours_are_passed_over(opened: Depot, place: BucketPlace) -> None:
    """As those that a server leaves behind when it was killed."""
    opened.append([{"v": 1}])
    store = open_store(place)
    for name in ("segments/00000000000000000002.seg.1234.tmp", "segments/x", "writers/junk"):
        store.write(name, b"junk")
    assert values(DepotReader(place, SCHEMA)) == [1]
    with Depot(place, spec(), epoch=2) as again:
        assert values(again) == [1]


def test_old_segments_go(place: BucketPlace) -> None:
    """As far as the retention says, from the bucket too; a mirror sees what is left."""
    with Depot(place, spec(Retention(records_max=4)), epoch=1) as depot:
        mirror = SegmentMirror(place, SCHEMA, 2)
        for number in range(20):
            depot.append([{"v": number}])
        assert depot.trim() > 10
        left = values(depot)
        assert left == list(range(20 - len(left), 20))
        assert not depot.lost_segments()
        mirror._refreshed = float("-inf")
        assert mirror.end_offsets() == depot.end_offsets()
        assert mirror.start_offsets() == depot.start_offsets()
        assert values(DepotReader(place, SCHEMA)) == left
