"""Torn tails and damage: every truncation point and every byte, exhaustively."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from depot_samples import all_rows, all_values, numbers, segments, spec_of

from atoll.depot import Depot, DepotReader
from atoll.depot.segments.scan import read_header
from atoll.errors import DamageError

Open = Callable[..., Depot]
SCHEMA = spec_of().schema


def fill(open_depot: Open, appends: int) -> tuple[Path, list[tuple[int, int]]]:
    """A depot of some appends; its newest segment, and after each append its size and rows."""
    depot = open_depot()
    path = segments(depot.folder)[-1]
    marks = [(path.stat().st_size, 0)]
    for n in range(appends):
        depot.append(numbers(3 * n, 3))
        marks.append((path.stat().st_size, 3 * (n + 1)))
    depot.close()
    return path, marks


def damaged_file(folder: Path) -> str | None:
    """The file that reading everything reports as damaged, if it does."""
    try:
        all_rows(DepotReader(folder, SCHEMA))
    except DamageError as error:
        return str(error.context["file"])
    return None


def test_every_truncation_point(open_depot: Open) -> None:
    """Cut anywhere, the whole frames before the cut are there, and nothing else."""
    path, marks = fill(open_depot, 4)
    whole = path.read_bytes()
    header_bytes = marks[0][0]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        if cut < header_bytes:
            if cut % 64 == 0:  # the header block is padded with zeros: enough of its cuts
                with pytest.raises(DamageError):
                    DepotReader(path.parent.parent, SCHEMA)
            continue
        rows = max(rows for size, rows in marks if size <= cut)
        assert all_values(DepotReader(path.parent.parent, SCHEMA)) == list(range(rows))


def test_appending_after_a_torn_tail(open_depot: Open) -> None:
    """After any tear the next append lands right behind the last whole frame, for good."""
    path, marks = fill(open_depot, 3)
    whole = path.read_bytes()
    folder = path.parent.parent
    for cut in range(marks[2][0], len(whole), 23):
        for later in segments(folder)[1:]:
            later.unlink()
        path.write_bytes(whole[:cut] + b"\xa7FRM garbage behind")
        depot = open_depot()
        depot.append({"k": "new", "v": 100})
        assert all_values(depot) == [*range(6), 100]
        depot.close()
        assert all_values(DepotReader(folder, SCHEMA)) == [*range(6), 100]


def test_every_flipped_byte_of_a_sealed_segment(open_depot: Open) -> None:
    """Opening and reading a depot tells of a flip in any byte that a later segment relies on."""
    path, _ = fill(open_depot, 2)
    open_depot().close()  # seals it
    whole = bytearray(path.read_bytes())
    undetected = []
    for at in range(len(whole)):
        whole[at] ^= 1 << (at % 8)
        path.write_bytes(whole)
        told = damaged_file(path.parent.parent)
        if told != str(path):
            undetected.append((at, told))
        whole[at] ^= 1 << (at % 8)
    assert undetected == []


def test_every_flipped_byte_of_the_newest_segment(open_depot: Open) -> None:
    """In the newest segment only the last append can be taken for torn; all else is damage."""
    path, marks = fill(open_depot, 3)
    whole = bytearray(path.read_bytes())
    last, expected = marks[-2]
    for at in range(marks[0][0] - 64, len(whole)):  # the header block: see the test above
        whole[at] ^= 0x10
        path.write_bytes(whole)
        if at < last:
            assert damaged_file(path.parent.parent) == str(path)
        else:
            assert all_values(DepotReader(path.parent.parent, SCHEMA)) == list(range(expected))
        whole[at] ^= 0x10


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_sealed_segment_cut_short(open_depot: Open, size: int) -> None:
    """A sealed segment that lost its end is damage, never a shorter log."""
    path, _ = fill(open_depot, 6)
    open_depot().close()
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - size)])
    with pytest.raises(DamageError):
        all_rows(DepotReader(path.parent.parent, SCHEMA))


def test_bytes_behind_a_sealed_segment(open_depot: Open) -> None:
    """What a fenced writer scribbles behind the recorded length is nobody's concern."""
    path, _ = fill(open_depot, 2)
    open_depot().close()
    with path.open("ab") as file:
        file.write(path.read_bytes()[-300:])
    assert all_values(DepotReader(path.parent.parent, SCHEMA)) == list(range(6))
    assert all_values(open_depot()) == list(range(6))


def test_zeroed_page_and_swapped_files(open_depot: Open) -> None:
    """A zeroed page and two segments under each other's names are told."""
    path, marks = fill(open_depot, 4)
    depot = open_depot()
    depot.append(numbers(12, 1))
    depot.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: marks[1][0]] + bytes(len(whole) - marks[1][0]))
    with pytest.raises(DamageError):
        all_rows(DepotReader(path.parent.parent, SCHEMA))
    path.write_bytes(whole)
    other = segments(path.parent.parent)[1]
    aside = path.with_suffix(".aside")
    shutil.move(path, aside)
    shutil.move(other, path)
    shutil.move(aside, other)
    with pytest.raises(DamageError, match="wrong name"):
        DepotReader(path.parent.parent, SCHEMA)


def test_newer_format(open_depot: Open) -> None:
    """A segment of a later format is refused as such and left alone."""
    path, _ = fill(open_depot, 1)
    header = read_header(path)
    assert header.number == 1
    from atoll.depot.segments import format as segment_format

    original = segment_format.FORMAT_VERSION
    segment_format.FORMAT_VERSION = original + 1
    try:
        block = segment_format.encode_header(header)
    finally:
        segment_format.FORMAT_VERSION = original
    data = path.read_bytes()
    path.write_bytes(block + data[len(block) :])
    with pytest.raises(segment_format.StorageError, match="format 2"):
        DepotReader(path.parent.parent, SCHEMA)
