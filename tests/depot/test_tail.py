"""Tails: acknowledged records, each once, in order, from anywhere, until retention overtakes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from depot_samples import Clock, spec_of

from atoll.ddl import parse_ddl
from atoll.depot import Custom, Depot, Retention, Tail, start
from atoll.depot.outside import OutsideDepot
from atoll.depot.segments.acknowledged import ACKNOWLEDGED_FOLDER
from atoll.depot.tail import Tailing
from atoll.depot.tail_start import read_start
from atoll.errors import (
    DamageError,
    DepotError,
    FencedError,
    OvertakenError,
    ReceiptError,
    StorageError,
    UsageError,
)

Open = Callable[..., Depot]
DDL = "p long, v long"
BY_P = Custom(lambda row, partitions: row["p"] % partitions)
ALL = 12


@dataclass
class Row:
    """A record as an object."""

    p: int
    v: int


def opened(open_depot: Open, **options: object) -> Depot:
    """A depot of two partitions that goes by ``p``."""
    given = {"ddl": DDL, "partitioner": BY_P, "partitions": 2, "module": "m"}
    return open_depot(**{**given, **options})


def filled(open_depot: Open, **options: object) -> Depot:
    """Twelve records in three segments, over two partitions."""
    depot = opened(open_depot, **options)
    for n in range(ALL):
        depot.append({"p": n % 2, "v": n})
        if n in {3, 7}:
            depot.close()
            depot = opened(open_depot, **options)
    return depot


def outside(depot: Depot) -> OutsideDepot:
    """The same depot as another process sees it."""
    return OutsideDepot(depot.folder, parse_ddl(DDL), 2, (), Tailing("m", "depot", Row))


def values(tail: Tail) -> dict[int, list[int]]:
    """What a tail tells now, by depot partition."""
    found: dict[int, list[int]] = {0: [], 1: []}
    for batch in tail.pending():
        assert batch.end - batch.start == len(batch) == len(batch.rows())
        found[batch.partition] += [row["v"] for row in batch.rows()]
    return found


EVERYTHING = {0: list(range(0, ALL, 2)), 1: list(range(1, ALL, 2))}


@pytest.mark.parametrize("most", [1, 4, 100])
def test_each_record_is_told_once_and_in_order_per_partition(open_depot: Open, most: int) -> None:
    """Also from outside, in batches of any size, and those that come while it is read."""
    depot = filled(open_depot)
    tails = [place.tail(batch_records=most) for place in (depot, outside(depot))]
    for tail in tails:
        assert values(tail) == EVERYTHING
    depot.append([{"p": 0, "v": 100}, {"p": 1, "v": 101}])
    for tail in tails:
        assert values(tail) == {0: [100], 1: [101]}
        assert values(tail) == {0: [], 1: []}
    told = list(depot.tail(follow=False, batch_records=most))
    assert sum(map(len, told)) == ALL + 2
    assert all(len(batch) <= most for batch in told)
    assert [batch.partition for batch in told[:2]] == [0, 1]


def test_without_following_it_ends_with_what_was_there(open_depot: Open) -> None:
    """What is appended while it is read is another's."""
    depot = filled(open_depot)
    tail = depot.tail(follow=False)
    first = next(tail)
    depot.append({"p": 0, "v": 100})
    assert len(first) + sum(map(len, tail)) == ALL
    assert tail.closed


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (start.end(), {0: [], 1: []}),
        (start.ago(2, "records"), {0: [8, 10], 1: [9, 11]}),
        ({0: 5, 1: 3}, {0: [10], 1: [7, 9, 11]}),
        (None, EVERYTHING),
    ],
)
def test_it_begins_where_it_is_told(
    open_depot: Open, choice: object, told: dict[int, list[int]]
) -> None:
    """By a start, or by offsets; inside and outside alike."""
    depot = filled(open_depot)
    assert values(depot.tail(choice)) == told  # type: ignore[arg-type]
    assert values(outside(depot).tail(choice)) == told  # type: ignore[arg-type]


def test_it_begins_after_a_time(open_depot: Open) -> None:
    """As texts say it, too."""
    clock = Clock()
    depot = opened(open_depot, clock=clock)
    for n in range(4):
        clock.now = 1000 + n
        depot.append({"p": 0, "v": n})
    assert values(depot.tail(read_start("1970-01-01T00:16:41Z")))[0] == [2, 3]
    assert values(depot.tail(read_start("2"), partition=0))[0] == [2, 3]
    assert values(depot.tail(read_start("end")))[0] == []
    with pytest.raises(UsageError, match="no place to begin"):
        read_start("yesterday")


def test_a_position_goes_on_where_another_tail_stopped(open_depot: Open) -> None:
    """Behind any batch, in another process, and behind a receipt."""
    depot = filled(open_depot)
    batches = list(depot.tail(batch_records=4).pending())
    rest = values(outside(depot).tail(batches[1].position))
    assert [len(each) for each in rest.values()] == [2, 2]
    receipt = depot.append([{"p": 0, "v": 100}, {"p": 1, "v": 101}])
    depot.append({"p": 0, "v": 102})
    assert values(depot.tail(receipt)) == {0: [102], 1: []}
    assert values(depot.tail(read_start(receipt.token))) == {0: [102], 1: []}


def test_starts_that_cannot_be_are_refused_by_name(open_depot: Open) -> None:
    """Each says what is wrong."""
    depot = filled(open_depot)
    one = depot.append({"p": 1, "v": 9})
    other = open_depot(depot.folder.parent / "other", ddl=DDL, module="other")
    cases: list[tuple[object, type[Exception], str]] = [
        (5, UsageError, "is not clear"),
        (one, UsageError, "not said where to begin in depot partition 0"),
        ({0: 99, 1: 0}, DepotError, "lies behind the last record"),
        ({0: -1, 1: 0}, UsageError, "is no offset"),
        (other.tail().position, ReceiptError, "a position in depot 'depot' of module 'other'"),
        ("r123", ReceiptError, "no token"),
    ]
    for given, kind, match in cases:
        with pytest.raises(kind, match=match):
            depot.tail(given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there is no depot partition 7"):
        depot.tail(partition=7)
    with pytest.raises(UsageError, match="choose 1 or more"):
        depot.tail(batch_records=0)


def test_retention_that_overtook_the_reader_is_named(open_depot: Open) -> None:
    """How many records are gone, and where it could go on; inside and outside."""
    depot = filled(open_depot, retention=Retention(records_max=1))
    tails = [depot.tail({0: 1, 1: 1}), outside(depot).tail({0: 1, 1: 1})]
    assert depot.trim() == 2
    for tail in tails:
        with pytest.raises(OvertakenError, match="deleted 3 records") as raised:
            tail.next(0)
        assert raised.value.context == {"depot": "depot", "partition": 0, "offset": 1, "oldest": 4}
    assert values(depot.tail()) == {0: [8, 10], 1: [9, 11]}


def test_a_segment_trimmed_while_it_is_read_is_named_as_such(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as damage: the tail has found its place and the file goes before it is opened."""
    depot = filled(open_depot, retention=Retention(records_max=1))
    tail = depot.tail()
    sizes = depot.sizes
    monkeypatch.setattr(depot, "sizes", lambda *given: (sizes(*given), depot.trim())[0])
    with pytest.raises(OvertakenError):
        tail.next(0)


def test_what_is_not_acknowledged_is_not_seen(
    open_depot: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that is in the file and cannot be made durable, from outside; nor ever after."""
    depot = opened(open_depot)
    depot.append({"p": 0, "v": 1})
    there = outside(depot)
    tail = there.tail()
    assert values(tail)[0] == [1]
    seen = []
    real = os.fdatasync

    def fails(descriptor: int) -> None:
        seen.append(values(tail)[0])  # the frame is written by now
        monkeypatch.setattr("atoll.depot.segments.segment_file._datasync", real)
        raise OSError(5, "no")

    monkeypatch.setattr("atoll.depot.segments.segment_file._datasync", fails)
    with pytest.raises(StorageError):
        depot.append({"p": 0, "v": 2})
    assert seen == [[]]
    assert values(tail)[0] == []
    depot.append({"p": 0, "v": 3})
    assert values(tail)[0] == [3]
    assert values(depot.tail())[0] == values(there.tail())[0] == [1, 3]


def test_large_appends_and_new_segments_are_seen_once_acknowledged(open_depot: Open) -> None:
    """Those that are published as a segment of their own."""
    depot = opened(open_depot)
    tail = outside(depot).tail()
    count = 20_000
    depot.append([{"p": n % 2, "v": n} for n in range(count)])
    told = values(tail)
    assert told == {0: list(range(0, count, 2)), 1: list(range(1, count, 2))}


def test_from_outside_all_is_seen_when_nobody_runs_the_module(open_depot: Open) -> None:
    """What was acknowledged stays; a note that a stop of the machine lost is no damage."""
    depot = filled(open_depot)
    depot.close()
    assert values(outside(depot).tail()) == EVERYTHING
    (note,) = (depot.folder / ACKNOWLEDGED_FOLDER).iterdir()
    note.write_bytes(b"")
    assert values(outside(depot).tail()) == {0: [0, 2, 4, 6], 1: [1, 3, 5, 7]}
    again = opened(open_depot)
    assert values(outside(again).tail()) == EVERYTHING


def test_a_damaged_note_is_named(open_depot: Open) -> None:
    """With the file, which may be deleted."""
    depot = filled(open_depot)
    (note,) = (depot.folder / ACKNOWLEDGED_FOLDER).iterdir()
    note.write_bytes(b"\x01" + note.read_bytes()[1:])
    with pytest.raises(DamageError) as raised:
        outside(depot).tail()
    assert raised.value.context == {"file": str(note)}
    note.unlink()
    outside(depot).tail()


def test_an_earlier_writer_takes_back_nothing_of_a_later_ones_note(
    open_depot: Open, tmp_path: Path
) -> None:
    """Each has a note of its own; the earlier ones go."""
    first = opened(open_depot)
    first.append({"p": 0, "v": 1})
    second = opened(open_depot)
    second.append({"p": 0, "v": 2})
    with pytest.raises(FencedError):
        first.append({"p": 0, "v": 3})
    assert values(outside(second).tail())[0] == [1, 2]
    assert len(list((second.folder / ACKNOWLEDGED_FOLDER).iterdir())) == 1


@pytest.mark.parametrize("inside", [True, False])
def test_who_waits_is_told_of_a_record_when_it_comes(open_depot: Open, *, inside: bool) -> None:
    """And goes on at once when the tail is closed."""
    depot = opened(open_depot)
    tail = (depot if inside else outside(depot)).tail()
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(batch.rows() for batch in tail))
    waiting.start()
    depot.append({"p": 0, "v": 7})
    while not found:
        waiting.join(0.005)
    tail.close()
    waiting.join(10)
    assert not waiting.is_alive()
    assert found == [[{"p": 0, "v": 7}]]


def test_tails_end_with_their_depot(open_depot: Open) -> None:
    """Quietly when it is closed; with the reason when another process took over."""
    depot = opened(open_depot)
    tail = depot.tail()
    depot.close()
    assert tail.next() is None
    again = opened(open_depot)
    tail = again.tail()
    again.end_tails(FencedError("taken over"))
    with pytest.raises(FencedError):
        tail.next()


def test_tasks_read_it_too_and_one_that_is_cancelled_loses_nothing(open_depot: Open) -> None:
    """What was ready when it was cancelled comes next."""
    depot = opened(open_depot)
    tail = outside(depot).tail(batch_records=1)

    async def run() -> list[int]:
        waiting = asyncio.ensure_future(anext(tail))
        await asyncio.sleep(0)
        depot.append([{"p": 0, "v": n} for n in range(3)])
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        found = []
        async with tail:
            async for batch in tail:
                found += [row.v for row in batch.objects()]
                if len(found) == 3:
                    break
        return found

    assert asyncio.run(run()) == [0, 1, 2]
    assert tail.closed


def test_records_are_objects_of_the_depot_s_class(open_depot: Open) -> None:
    """Or of one that is named; without any it is said."""
    depot = filled(open_depot)
    batch = outside(depot).tail().next(0)
    assert batch is not None
    assert batch.objects()[:2] == [Row(0, 0), Row(0, 2)]
    plain = depot.tail().next(0)
    assert plain is not None
    assert plain.objects(Row) == batch.objects()
    with pytest.raises(UsageError, match="not known here which class"):
        plain.objects()


def test_a_schema_that_changed_meanwhile_is_named(open_depot: Open) -> None:
    """A reader from outside connects again, and goes on where it was."""
    depot = filled(open_depot)
    tail = outside(depot).tail()
    values(tail)
    depot.close()
    again = opened(open_depot, ddl=f"{DDL}, more string")
    again.append({"p": 0, "v": 100, "more": "x"})
    with pytest.raises(DepotError, match="another schema since"):
        tail.next(0)
    assert values(again.tail(tail.position))[0] == [100]


def test_batches_are_bounded_in_bytes(open_depot: Open) -> None:
    """Large records come a few at a time."""
    depot = open_depot(ddl="v string", partitions=1, module="m")
    depot.append([{"v": "x" * 1_000_000}] * 20)
    sizes = [len(batch) for batch in depot.tail(follow=False)]
    assert sum(sizes) == 20
    assert max(sizes) < 10


def test_spec_of_knows_no_class() -> None:
    """Unless it was declared with one."""
    assert spec_of().row_class is None
