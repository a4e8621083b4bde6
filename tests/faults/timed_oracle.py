"""What a life of the timed scenario must end with: plain folds, which share nothing with Atoll.

Each round's records are one microbatch, so a row is late when its windows were closed by what the
rounds before it brought; and before the next round everything is closed that is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from scenario import digest
from timed_scenario import (
    AFTER_MS,
    DELAY_MS,
    FAR_MS,
    GAP_MS,
    LATENESS_MS,
    PARTITIONS,
    PER_ROUND,
    ROUND_MS,
    SIZE_MS,
    SLIDE_MS,
    TICK_MS,
    as_json,
    clock_ms,
    record_of,
)

__all__ = ["expected", "partition_records"]

Record = dict[str, int]
Bounds = tuple[int, int, int]
"""A window: user, start, end."""
_NEVER = -(2**60)


def expected(rounds: int) -> dict[str, Any]:
    """All that can be seen after so many rounds, but for ids of commits and what is trimmed."""
    batches = [_round(number) for number in range(rounds)]
    records = [record for batch in batches for record in batch]
    closed, late = _tumbling(batches)
    slid, dropped = _sliding(batches)
    sessions, dropped_too = _sessions(batches)
    watermark = _watermark(records)
    by_event = [r for r in records if r["at"] + AFTER_MS <= watermark]
    assert len({(r["user"], r["at"]) for r in records}) == len({r["ring"] for r in records})
    return as_json(
        {
            "profile": _profile(records),
            "ticks": dict.fromkeys(_ticks(rounds), 1),
            "waiting": {},
            "heard": _heard(records, by_event),
            "summary": _summary(closed),
            "closed": sorted(closed),
            "slid": sorted(slid),
            "late": sorted(tuple(record.values()) for record in late),
            "sessions": sorted(sessions),
            "by_clock": sorted(_by_clock(records)),
            "by_event": sorted((r["user"], r["at"] + AFTER_MS, r["n"]) for r in by_event),
            "watermarks": [watermark],
            "dropped": sorted((dropped, dropped_too)),
        }
    )


def partition_records(rounds: int, partition: int) -> list[Record]:
    """What was appended to a depot partition, in order."""
    records = [record_of(each) for each in range(rounds * PER_ROUND)]
    return [each for each in records if each["user"] % PARTITIONS == partition]


def _round(number: int) -> list[Record]:
    first = number * PER_ROUND
    return [record_of(each) for each in range(first, first + PER_ROUND)]


def _watermark(records: Iterable[Record]) -> int:
    return max((record["at"] for record in records), default=_NEVER) - DELAY_MS


def _with_watermarks(batches: list[list[Record]]) -> Iterator[tuple[list[Record], int, int]]:
    """Each batch with the watermark that it sees, and the one that it leaves."""
    seen: list[Record] = []
    for batch in batches:
        before = _watermark(seen)
        seen += batch
        yield batch, before, _watermark(seen)


# Windows ------------------------------------------------------------------------------------------


def _tumbling(batches: list[list[Record]]) -> tuple[list[tuple[int, ...]], list[Record]]:
    rows: list[tuple[int, ...]] = []
    late: list[Record] = []
    counts: dict[Bounds, list[int]] = {}
    for batch, before, after in _with_watermarks(batches):
        for record in batch:
            begin = record["at"] // SIZE_MS * SIZE_MS
            if begin + SIZE_MS <= before:
                late.append(record)
            else:
                _count(counts, (record["user"], begin, begin + SIZE_MS), record)
        due = [each for each in counts if each[2] <= after]
        rows += [(*window, *counts.pop(window)) for window in due]
    return rows, late


def _sliding(batches: list[list[Record]]) -> tuple[list[tuple[int, ...]], int]:
    rows: list[tuple[int, ...]] = []
    dropped = 0
    counts: dict[Bounds, list[int]] = {}
    for batch, before, after in _with_watermarks(batches):
        again: set[Bounds] = set()
        for record in batch:
            last = record["at"] // SLIDE_MS * SLIDE_MS
            ends = [
                begin + SIZE_MS for begin in range(last - SIZE_MS + SLIDE_MS, last + 1, SLIDE_MS)
            ]
            kept = [end for end in ends if end + LATENESS_MS > before]
            dropped += not kept
            for end in kept:
                window = (record["user"], end - SIZE_MS, end)
                _count(counts, window, record)
                if end <= before:
                    again.add(window)
        rows += [(*window, *counts[window]) for window in again]
        rows += [(*each, *counts[each]) for each in counts if before < each[2] <= after]
        counts = {key: value for key, value in counts.items() if key[2] + LATENESS_MS > after}
    return rows, dropped


def _sessions(batches: list[list[Record]]) -> tuple[list[tuple[int, ...]], int]:
    rows: list[tuple[int, ...]] = []
    dropped = 0
    counts: dict[Bounds, list[int]] = {}
    ended: Counter[int] = Counter()
    for batch, before, after in _with_watermarks(batches):
        for record in batch:
            if record["at"] + GAP_MS <= before:
                dropped += 1
                continue
            user, begin, end = record["user"], record["at"], record["at"] + GAP_MS
            found = [1, record["amount"]]
            for one in [w for w in counts if w[0] == user and w[1] < end and begin < w[2]]:
                found = [mine + other for mine, other in zip(found, counts.pop(one), strict=True)]
                begin, end = min(begin, one[1]), max(end, one[2])
            counts[user, begin, end] = found
        for window in sorted((w for w in counts if w[2] <= after), key=lambda w: (w[2], w[1])):
            ended[window[0]] += 1
            rows.append((*window, *counts.pop(window), ended[window[0]]))
    return rows, dropped


def _count(counts: dict[Bounds, list[int]], window: Bounds, record: Record) -> None:
    known = counts.setdefault(window, [0, 0])
    known[0] += 1
    known[1] += record["amount"]


def _summary(closed: Iterable[tuple[int, ...]]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for user, begin, _, n, total in closed:
        known = found.setdefault(user, {"windows": 0, "by_start": {}})
        known["windows"] += 1
        assert begin not in known["by_start"]
        known["by_start"][begin] = {"n": n, "total": total}
    return found


# Timers, ticks, the rest --------------------------------------------------------------------------


def _by_clock(records: Iterable[Record]) -> Iterator[tuple[int, int, int]]:
    """Each record's timer, and those for the far future that no later record took back."""
    waiting: dict[int, list[int]] = {}
    for record in records:
        user, number = record["user"], record["n"]
        yield user, record["ring"], number
        if number % 4 == 0:
            waiting.setdefault(user, []).append(number)
        elif number % 4 == 2:
            waiting.pop(user, None)
    for user, numbers in waiting.items():
        yield from ((user, FAR_MS + number, number) for number in numbers)


def _heard(records: Iterable[Record], rung: Iterable[Record]) -> dict[int, int]:
    found = Counter(record["user"] for record in records)
    for record in rung:
        found[record["user"]] += 1_000
    return dict(found)


def _ticks(rounds: int) -> list[int]:
    clocks = [*(clock_ms(number) for number in range(rounds)), FAR_MS + ROUND_MS]
    return [each // TICK_MS for each in clocks]


def _profile(records: Iterable[Record]) -> dict[int, dict[str, int]]:
    found: dict[int, int] = {}
    for record in records:
        user = record["user"]
        found[user] = digest(found.get(user, 0), record["n"] * 7 + record["amount"])
    return {user: {"digest": value, "tenfold": 10 * value} for user, value in found.items()}
