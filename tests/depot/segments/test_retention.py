"""Retention: what must be kept is kept, what may go frees the disk, and it survives crashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from depot_samples import Clock, all_values, numbers, segments, spec_of
from hypothesis import given
from hypothesis import strategies as st

from atoll.depot import Depot, DepotReader, Retention
from atoll.depot.segments.format import SegmentHeader
from atoll.depot.segments.retention import removable
from atoll.errors import DamageError, DeclarationError, DepotError

Open = Callable[..., Depot]


def fill(open_depot: Open, clock: Clock, **options: object) -> Depot:
    """Ten segments of ten records each, one every ten seconds."""
    depot = open_depot(partitions=1, clock=clock, **options)
    for n in range(10):
        depot.append(numbers(10 * n, 10))
        clock.now += 10
        if n < 9:
            depot.close()
            depot = open_depot(partitions=1, clock=clock, **options)
    return depot


def test_by_count(open_depot: Open, tmp_path: Path) -> None:
    """At least the newest records are kept; the rest goes by whole segments."""
    depot = fill(open_depot, Clock(), retention=Retention(records_max=25))
    assert depot.trim() == 7
    assert (depot.start_offsets(), depot.end_offsets()) == ((70,), (100,))
    assert len(segments(tmp_path / "depot")) == 3
    assert all_values(depot) == list(range(70, 100))
    with pytest.raises(DepotError):
        depot.read(0, 69, 100)
    assert depot.trim() == 0
    depot.append(numbers(100, 1))
    assert depot.trim() == 0
    depot.close()
    again = open_depot(partitions=1, retention=Retention(records_max=25))
    assert all_values(again) == list(range(70, 101))
    assert all_values(DepotReader(tmp_path / "depot", again.spec.schema)) == list(range(70, 101))


def test_by_age(open_depot: Open) -> None:
    """Records younger than the limit stay."""
    clock = Clock(1000)
    depot = fill(open_depot, clock, retention=Retention(age_seconds_max=45))
    assert depot.trim() == 5
    assert depot.start_offsets() == (50,)
    clock.now += 1000
    assert depot.trim() == 4  # never the newest segment
    assert all_values(depot) == list(range(90, 100))


def test_both_limits_must_let_go(open_depot: Open) -> None:
    """With two limits, what one of them keeps is kept."""
    clock = Clock(1000)
    depot = fill(open_depot, clock, retention=Retention(records_max=80, age_seconds_max=45))
    assert depot.trim() == 2


def test_protected(open_depot: Open) -> None:
    """What somebody still needs stays, whatever the limits say."""
    depot = fill(open_depot, Clock(), retention=Retention(records_max=0))
    assert depot.trim(protected=[9]) == 0
    assert depot.trim(protected=[35]) == 3
    assert depot.start_offsets() == (30,)
    assert depot.trim(protected=[1000]) == 6


def test_without_limits(open_depot: Open) -> None:
    """Without limits nothing goes."""
    depot = fill(open_depot, Clock())
    assert depot.trim() == 0


def test_negative_limits() -> None:
    """Limits below zero are refused at declaration."""
    with pytest.raises(DeclarationError):
        Retention(records_max=-1)


def test_crash_while_deleting(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Killed between decision and deletion: the decision holds, the next trim cleans up."""
    depot = fill(open_depot, Clock(), retention=Retention(records_max=25))
    monkeypatch.setattr(Depot, "_delete_below", lambda *_: None)
    depot.trim()
    depot.close()
    monkeypatch.undo()
    assert len(segments(tmp_path / "depot")) == 10
    again = open_depot(partitions=1, retention=Retention(records_max=15))
    assert again.start_offsets() == (70,)
    again.append(numbers(100, 10))
    assert again.trim() == 2
    assert all_values(again) == list(range(90, 110))
    assert len(segments(tmp_path / "depot")) == 2


def test_reader_follows(open_depot: Open, tmp_path: Path) -> None:
    """A reader that was open before sees the trim after a refresh."""
    depot = fill(open_depot, Clock(), retention=Retention(records_max=25))
    reader = DepotReader(tmp_path / "depot", depot.spec.schema)
    depot.trim()
    with pytest.raises(DamageError):
        reader.read(0, 0, 5)
    reader.refresh()
    assert reader.start_offsets() == (70,)


def test_everything_trimmed_is_no_damage_but_a_lost_first_segment_is(
    open_depot: Open, tmp_path: Path
) -> None:
    """The first retained number is on record, so a first segment lost otherwise is told."""
    depot = fill(open_depot, Clock(), retention=Retention(records_max=25))
    depot.trim()
    depot.close()
    segments(tmp_path / "depot")[0].unlink()
    with pytest.raises(DamageError):
        DepotReader(tmp_path / "depot", spec_of().schema)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8),
    st.none() | st.integers(0, 60),
    st.none() | st.integers(0, 60),
    st.none() | st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
def test_never_too_much_and_not_too_little(
    counts: list[tuple[int, int]],
    records_max: int | None,
    age: int | None,
    protected: tuple[int, int] | None,
) -> None:
    """The removable segments hold nothing to keep, and the next one does (or is the newest)."""
    headers, bases = [], (0, 0)
    for number, count in enumerate(counts, 1):
        headers.append(SegmentHeader(number, 1, 0, list(bases), 0, 0, number * 10_000, ""))
        bases = (bases[0] + count[0], bases[1] + count[1])
    now_ms = len(counts) * 10_000
    gone = removable(headers, bases, Retention(records_max, age), protected, now_ms)

    def may_go(segments_gone: int) -> bool:
        following = headers[segments_gone]
        checks = []
        if records_max is not None:
            checks += [
                end - base >= records_max for end, base in zip(bases, following.bases, strict=True)
            ]
        if age is not None:
            checks.append(following.time_ms <= now_ms - age * 1000)
        if protected is not None:
            checks += [
                base <= needed for base, needed in zip(following.bases, protected, strict=True)
            ]
        return all(checks) and not (records_max is None and age is None)

    assert gone < len(headers)
    assert gone == 0 or may_go(gone)
    if gone + 1 < len(headers):
        assert not may_go(gone + 1)
