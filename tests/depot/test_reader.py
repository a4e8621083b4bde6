"""Reading from outside, and where to start: every choice, per depot partition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
from depot_samples import Clock, all_values, numbers, spec_of, table

from atoll.depot import Custom, Depot, DepotReader, StartFrom, start
from atoll.depot.append import stream as stream_append
from atoll.errors import DeclarationError

Open = Callable[..., Depot]
BY_P = Custom(lambda row, partitions: row["p"] % partitions)


def timeline(open_depot: Open, clock: Clock) -> Depot:
    """One record a second from 1000 s on, in partitions 0, 1, 0, 1, ..., over three segments."""
    depot = open_depot(ddl="p long, v long", clock=clock, partitioner=BY_P)
    for n in range(30):
        clock.now = 1000 + n
        depot.append({"p": n % 2, "v": n})
        if n in {9, 19}:
            depot.close()
            depot = open_depot(ddl="p long, v long", clock=clock, partitioner=BY_P)
    clock.now = 1030
    return depot


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (start.end(), (15, 15)),
        (start.beginning(), (0, 0)),
        (start.after_timestamp(0), (0, 0)),
        (start.after_timestamp(999_999), (0, 0)),
        (start.after_timestamp(1_000_000), (1, 0)),
        (start.after_timestamp(1_000_999), (1, 0)),
        (start.after_timestamp(1_009_000), (5, 5)),
        (start.after_timestamp(1_009_999.9), (5, 5)),
        (start.after_timestamp(1_010_000), (6, 5)),
        (start.after_timestamp(dt.datetime.fromtimestamp(1019, dt.UTC)), (10, 10)),
        (start.after_timestamp(1_029_000), (15, 15)),
        (start.after_timestamp(9_999_999), (15, 15)),
        (start.ago(0, "records"), (15, 15)),
        (start.ago(4, "records"), (11, 11)),
        (start.ago(100, "records"), (0, 0)),
        (start.ago(5, "seconds"), (13, 13)),
        (start.ago(0.5, "minutes"), (1, 0)),
        (start.ago(1, "hours"), (0, 0)),
        (start.ago(2, "days"), (0, 0)),
    ],
)
def test_start_from(
    open_depot: Open, tmp_path: Path, choice: StartFrom, expected: tuple[int, int]
) -> None:
    """Each choice resolves per depot partition, for the writer and for a reader alike."""
    clock = Clock()
    depot = timeline(open_depot, clock)
    assert depot.resolve_start(choice) == expected
    reader = DepotReader(tmp_path / "depot", depot.spec.schema, clock)
    assert reader.resolve_start(choice) == expected


def test_start_from_in_an_empty_depot(open_depot: Open) -> None:
    """Where nothing is, everything starts at zero."""
    depot = open_depot()
    for choice in (start.end(), start.beginning(), start.after_timestamp(5), start.ago(1, "days")):
        assert depot.resolve_start(choice) == (0, 0)


def test_staged_records_have_the_time_they_appeared(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A staged append counts as made when it was published, not while it was written."""
    monkeypatch.setattr(stream_append, "MEMORY_BYTES_MAX", 1024)
    clock = Clock(1000)
    depot = open_depot(partitions=1, clock=clock)
    depot.append(numbers(0, 1))
    clock.now = 2000
    depot.append(table(1, 5000))
    clock.now = 3000
    depot.append(numbers(5001, 1))
    for _ in range(2):
        assert depot.resolve_start(start.after_timestamp(1_000_000)) == (1,)
        assert depot.resolve_start(start.after_timestamp(1_999_999)) == (1,)
        assert depot.resolve_start(start.after_timestamp(2_000_000)) == (5001,)
        depot.close()
        depot = open_depot(partitions=1, clock=clock)


def test_choices_that_cannot_be() -> None:
    """Wrong units, negative counts and naive datetimes are refused at declaration."""
    for wrong in (
        lambda: start.ago(-1, "records"),
        lambda: start.ago(1, "months"),  # type: ignore[arg-type]
        lambda: start.after_timestamp(dt.datetime(2020, 1, 1)),  # noqa: DTZ001  # naive on purpose
    ):
        with pytest.raises(DeclarationError):
            wrong()


def test_reader_of_a_depot_in_use(open_depot: Open, tmp_path: Path) -> None:
    """A reader sees new records, new segments and new writers after a refresh, not before."""
    schema = spec_of().schema
    assert DepotReader(tmp_path / "depot", schema).end_offsets() == ()
    depot = open_depot(segment_bytes_max=64 * 1024)
    reader = DepotReader(tmp_path / "depot", schema)
    assert reader.end_offsets() == (0, 0)
    total = 0
    for round_ in range(6):
        data = table(total, 3000) if round_ % 2 else numbers(total, 5)
        total += depot.append(data).count
        assert sum(reader.end_offsets()) < total
        reader.refresh()
        assert all_values(reader) == list(range(total))
        if round_ == 3:
            depot.close()
            depot = open_depot(segment_bytes_max=64 * 1024)


def test_reader_drops_what_a_later_writer_did_not_count(open_depot: Open) -> None:
    """A frame that was on disk but never acknowledged vanishes for readers once that is decided."""
    older = open_depot(epoch=1)
    older.append(numbers(0, 2))
    path = older.folder / "segments" / f"{1:020d}.seg"
    size = path.stat().st_size
    newer = open_depot(epoch=2)
    copy = path.read_bytes()
    with path.open("ab") as file:  # as a stopped writer would, when it goes on
        file.write(copy[4096:size])
    newer.append(numbers(2, 1))
    reader = DepotReader(older.folder, older.spec.schema)
    assert all_values(reader) == [0, 1, 2]
