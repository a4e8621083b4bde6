"""Verifying a depot: nothing on a sound one; every damage named with its cost, past the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from depot_samples import numbers, segments, table

from atoll.depot import Depot, Producer
from atoll.depot.segments import verify
from atoll.depot.segments.verify import verify_depot
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects
from atoll.storage.roots import RootStore

Open = Callable[..., Depot]


def filled(open_depot: Open) -> None:
    """Three segments, the first of several frames."""
    depot = open_depot(partitions=1)
    for n in range(4):
        depot.append(numbers(n * 10, 10), producer=Producer("p", n))
    depot.close()
    depot = open_depot(partitions=1)
    depot.append(table(40, 20))
    depot.close()
    open_depot(partitions=1).close()


def flip(path: Path, position: int) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_a_sound_depot(open_depot: Open, tmp_path: Path) -> None:
    """It has none, also with a torn end, and neither has a folder that never was one."""
    filled(open_depot)
    assert list(verify_depot(tmp_path / "depot")) == []
    with segments(tmp_path / "depot")[-1].open("ab") as file:
        file.write(b"\xa7FRM torn")
    assert list(verify_depot(tmp_path / "depot")) == []
    assert list(verify_depot(tmp_path / "none")) == []


def test_every_damage_is_named(open_depot: Open, tmp_path: Path) -> None:
    """A block, a frame's header and a whole segment: each is found, with what it costs."""
    filled(open_depot)
    first, second, _ = segments(tmp_path / "depot")
    frames = [n for n in range(first.stat().st_size) if first.read_bytes()[n : n + 4] == b"\xa7FRM"]
    assert len(frames) == 4
    flip(first, frames[1] - 1)  # the end of the first frame's block
    flip(first, frames[2] + 6)  # the third frame's header
    flip(first, first.stat().st_size - 1)  # the last block
    flip(second, 30)
    found = list(verify_depot(tmp_path / "depot"))
    costs = [(Path(each.file).name, each.cost) for each in found]
    assert costs == [
        (first.name, "depot partition 0: offsets 0 to 9"),
        (first.name, "depot partition 0: offsets from 20 on"),
        (first.name, "depot partition 0: 10 records (offsets not known)"),
        (second.name, "all records of the segment are lost"),
    ]


def test_a_missing_segment(open_depot: Open, tmp_path: Path) -> None:
    """It is named; those around it are still looked at."""
    filled(open_depot)
    first, second, _ = segments(tmp_path / "depot")
    second.unlink()
    flip(first, first.stat().st_size - 1)
    found = list(verify_depot(tmp_path / "depot"))
    assert [each.what for each in found] == [
        "a block's checksum does not match",
        "the segment is missing",
    ]


@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_a_segment_that_retention_drops_meanwhile_is_no_damage(
    open_depot: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, read: bool, trimmed: bool
) -> None:
    """Before its header is read, or after; one that nobody let go is missed all the same."""
    filled(open_depot)
    folder = tmp_path / "depot"
    oldest, header_of = segments(folder)[0], verify.header_of

    def going(store: RootStore, name: str) -> object:
        if store.file(name) != oldest:
            return header_of(store, name)
        header = header_of(store, name) if read else None
        if trimmed:
            NumberedObjects(LocalStore(folder), "retained").create(2, b"")
        oldest.unlink()
        return header or header_of(store, name)

    monkeypatch.setattr(verify, "header_of", going)
    missing = [] if trimmed else ["the segment is missing"]
    assert [each.what for each in verify_depot(folder)] == missing
